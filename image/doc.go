// Command image makes the container image, and what else a release publishes, without a container engine, Helm or git:
//
//	go -C image run . -version v1.2.3 -o ../dist
//
//	dist/v1.2.3/clusterset-<os>-<arch>   the command line and agent, for each platform
//	dist/v1.2.3/clusterset-image.tar     the container image, both programs and the licences, for each architecture of Linux
//	dist/v1.2.3/clusterset-1.2.3.tgz     the chart, as Helm packs it
//	dist/v1.2.3/clusterset-chart.tar     the same as an OCI artifact, to push to a registry
//	dist/v1.2.3/clusterset-sbom.cdx.json the parts of the programs and their licences, in CycloneDX
//	dist/v1.2.3/THIRD_PARTY_NOTICES.txt  the texts of those licences, and the notices that they ask to pass on
//	dist/v1.2.3/RELEASE_NOTES.md         the version's section of CHANGELOG.md
//	dist/v1.2.3/SHA256SUMS               the checksums of all these
//
// Both .tar files are OCI image layouts, which skopeo, podman, crane, nerdctl and ctr load as they are.
//
// A part whose licence is unknown, or not one of those that licences.go allows, ends the run before anything is written.
//
// The same sources, Go toolchain, version and SOURCE_DATE_EPOCH make the same bytes: nothing of the machine, the time or the
// user gets in.
//
// It is a separate module, so that the programs that people install don't depend on libraries for images. The module also pins
// crane for `make push`.
package main
