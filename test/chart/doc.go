// Package chart renders charts/clusterset as Helm does, and tests it: the manifests that each documented set of values renders to
// (testdata/), which values are rejected and with which message, that a real kube-apiserver accepts every object, that the
// Corefiles start, and that the roles grant exactly the rights that the processes need.
//
// It is a separate module because it needs Helm's engine, on which no shipped program should depend.
package chart
