// Command image makes the container image, and what else a release publishes, without a container engine, Helm or git:
//
//	go -C image run . -version v1.2.3 -o ../dist
//
//	dist/v1.2.3/clusterset-<os>-<arch>   the command line and agent, for each platform
//	dist/v1.2.3/clusterset-image.tar     the container image, both programs and nothing else, for each architecture of Linux
//	dist/v1.2.3/clusterset-1.2.3.tgz     the chart, as Helm packs it
//	dist/v1.2.3/clusterset-chart.tar     the same as an OCI artifact, to push to a registry
//	dist/v1.2.3/clusterset-sbom.cdx.json what the programs are made of, in CycloneDX
//	dist/v1.2.3/RELEASE_NOTES.md         the version's section of CHANGELOG.md
//	dist/v1.2.3/SHA256SUMS               the checksums of all these
//
// Both .tar files are OCI image layouts, which skopeo, podman, crane, nerdctl and ctr load as they are. docker load reads the
// image of this machine's architecture by manifest.json.
//
// The same sources, Go toolchain, version and SOURCE_DATE_EPOCH make the same bytes: nothing of the machine, the time or the
// user gets in.
//
// It is a module of its own so that the programs that people install don't depend on libraries for images. The module also pins
// crane, which `make push` pushes with.
package main
