package chart

//go:generate go run ./generate
