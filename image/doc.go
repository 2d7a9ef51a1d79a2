// Command image builds the container image: both binaries, nothing else, for each architecture, without a container engine.
//
//	go run ./image -o dist/clusterset.tar
//
// The file is an OCI image layout in a tar archive, which skopeo, podman, crane, nerdctl, ctr and a current docker load as it is. An
// older docker finds the image of this machine's architecture in it, by manifest.json.
//
// The same sources, Go toolchain and version give the same bytes: nothing of the machine, the time or the user gets in. What a
// layout has to hold is little enough to write by hand (https://github.com/opencontainers/image-spec), so there is no library;
// the module in ./interop has one read the result.
package main
