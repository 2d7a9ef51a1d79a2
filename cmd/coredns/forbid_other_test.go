//go:build !linux

package main

func forbid(string) {}
