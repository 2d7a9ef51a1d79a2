// Command image builds the container image, both binaries and nothing else, for each architecture, without a container engine.
//
//	go -C image run . -o ../dist/clusterset.tar
//
// The file is an OCI image layout in a tar archive, which skopeo, podman, crane, nerdctl and ctr load as it is. docker load reads
// the image of this machine's architecture from it, by manifest.json.
//
// The same sources, Go toolchain and version make the same bytes: nothing of the machine, the time or the user gets in.
//
// It is a module of its own so that the programs that people install don't depend on a library for images.
package main
