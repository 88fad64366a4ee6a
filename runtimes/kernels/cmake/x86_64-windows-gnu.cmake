# Builds for Windows on another machine: ziglang from PyPI, and Debian's wine64 to run. GCC cannot: on
# Windows it keeps registers of AVX at addresses that are not multiples of 32 (its bug 54412).
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR AMD64)
set(CMAKE_CXX_COMPILER "${CMAKE_CURRENT_LIST_DIR}/zig-c++;x86_64-windows-gnu")
set(CMAKE_CROSSCOMPILING_EMULATOR /usr/lib/wine/wine64)
set(CMAKE_DISABLE_FIND_PACKAGE_Python ON) # those of this machine are Linux's
