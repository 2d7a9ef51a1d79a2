// Package interop has a library that pulls and pushes images, github.com/google/go-containerregistry, read what
// `go run ./image` writes. It is a module of its own, so that nothing else depends on that library.
package interop
