# Builds for Windows on another machine: Debian's clang, lld and g++-mingw-w64-x86-64-posix, and wine64
# to run. Of GCC only the standard library is used: its code crashes (x86_64-windows-gnu.cmake).
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR AMD64)
set(CMAKE_CXX_COMPILER clang++)
set(CMAKE_CXX_COMPILER_TARGET x86_64-w64-mingw32)
set(CMAKE_CROSSCOMPILING_EMULATOR /usr/lib/wine/wine64)
set(CMAKE_DISABLE_FIND_PACKAGE_Python ON) # those of this machine are Linux's
execute_process(COMMAND x86_64-w64-mingw32-g++-posix -print-libgcc-file-name
  OUTPUT_VARIABLE libgcc COMMAND_ERROR_IS_FATAL ANY)
cmake_path(GET libgcc PARENT_PATH gcc)
# Variables of a thread are where that library expects them. ONNX Runtime's header lacks two macros.
string(JOIN " " CMAKE_CXX_FLAGS_INIT -femulated-tls -stdlib++-isystem ${gcc}/include/c++
  -stdlib++-isystem ${gcc}/include/c++/x86_64-w64-mingw32
  "\"-D_Return_type_success_(x)=\"" -D_Frees_ptr_opt_=)
# Nothing but Windows' own libraries is needed to run the result.
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-fuse-ld=lld -static -L${gcc}")
endforeach()
set(CMAKE_CXX_STANDARD_LIBRARIES_INIT -lpthread)
