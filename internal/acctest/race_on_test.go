//go:build race

package acctest_test

// raceDetector: everything takes some ten times as long, and its own memory besides.
const raceDetector = true
