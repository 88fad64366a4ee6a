// An Android library (.aar) of the Java binding: the same Java and C++ sources. Never built: neither
// Android's SDK nor its NDK was at hand.
//
//   gradle assembleRelease -Pnlohmann_json=/usr/share/cmake/nlohmann_json
plugins {
    id("com.android.library") version "8.7.0"
}

android {
    namespace = "edgespec.android"
    compileSdk = 35
    ndkVersion = "27.2.12479018" // segments that fit pages of 16 KB

    defaultConfig {
        minSdk = 28
        consumerProguardFiles("consumer-rules.pro")
        ndk { abiFilters += listOf("arm64-v8a", "x86_64") }
        externalNativeBuild {
            cmake {
                arguments += listOf(
                    "-DEDGESPEC_JAVA=ON",
                    "-DANDROID_STL=c++_static",
                    "-DANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES=ON",
                    "-Dnlohmann_json_DIR=${project.findProperty("nlohmann_json") ?: ""}",
                )
            }
        }
    }

    externalNativeBuild { cmake { path = file("../CMakeLists.txt") } }

    sourceSets { getByName("main") { java.srcDir("../java/src/main/java") } }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }
}

dependencies {
    // Brings libonnxruntime.so: LoadOptions.onnxruntime = "libonnxruntime.so".
    api("com.microsoft.onnxruntime:onnxruntime-android:1.25.0")
}
