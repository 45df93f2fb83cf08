//go:build race

package rig

// RaceDetector reports whether the race detector is on: everything takes some ten times as long then, and more memory.
const RaceDetector = true
