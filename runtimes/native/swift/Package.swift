// swift-tools-version:5.9
// libedgespec for Swift: sources only. No Swift compiler was at hand; this package was never built.
//
// libedgespec is found by pkg-config (cmake --install writes edgespec.pc). For iOS, replace the system
// library by a binary target with an XCFramework of ../ios.
import PackageDescription

let package = Package(
    name: "Edgespec",
    platforms: [.macOS(.v14), .iOS(.v17)],
    products: [.library(name: "Edgespec", targets: ["Edgespec"])],
    targets: [
        .systemLibrary(name: "CEdgespec", pkgConfig: "edgespec"),
        .target(name: "Edgespec", dependencies: ["CEdgespec"]),
    ]
)
