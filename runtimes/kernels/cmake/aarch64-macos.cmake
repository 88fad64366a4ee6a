# Builds for macOS on another machine: ziglang from PyPI. Nothing here runs the result.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(CMAKE_CXX_COMPILER "${CMAKE_CURRENT_LIST_DIR}/zig-c++;aarch64-macos.14.0")
set(CMAKE_DISABLE_FIND_PACKAGE_Python ON) # those of this machine are Linux's
