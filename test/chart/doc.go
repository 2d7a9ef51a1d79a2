// Package chart renders charts/clusterset as Helm does, and holds its tests: what each documented set of values comes to
// (testdata/), which values are refused and in which words, that a real kube-apiserver takes every object, that the Corefiles
// start, and that the roles are what the processes need and no more.
//
// It is a module of its own because it needs Helm's engine, which nothing that is shipped should depend on.
package chart
