package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// TestOfAProgram: modules by their replacement, and the standard library by the version of Go.
func TestOfAProgram(t *testing.T) {
	made, err := describe(&debug.BuildInfo{GoVersion: "go1.26.1 X:nocoverageredesign", Main: debug.Module{Path: "example.org/a", Version: "(devel)"},
		Deps: []*debug.Module{{Path: "example.org/b", Version: "v0.1.0"},
			{Path: "example.org/c", Version: "v0.2.0", Replace: &debug.Module{Path: "example.org/fork", Version: "v0.3.0"}}}}, "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	want := []component{{"library", "std", "1.26.1", "pkg:golang/std@1.26.1"}, {"library", "example.org/b", "v0.1.0", "pkg:golang/example.org/b@v0.1.0"},
		{"library", "example.org/fork", "v0.3.0", "pkg:golang/example.org/fork@v0.3.0"}}
	if !slices.Equal(made.Components, want) {
		t.Errorf("%+v", made.Components)
	}
	if text, err := json.Marshal(made.Metadata); err != nil || !strings.Contains(string(text), `"purl":"pkg:golang/example.org/a@v1.0.0"`) {
		t.Errorf("%s %v", text, err)
	}
}

// TestOfOneOfSeveral: a program that is not the module's own is told from it.
func TestOfOneOfSeveral(t *testing.T) {
	made, err := describe(&debug.BuildInfo{GoVersion: "go1.26.1", Path: "example.org/a/cmd/b", Main: debug.Module{Path: "example.org/a"},
		Deps: []*debug.Module{{Path: "example.org/c", Version: "v0.1.0"}}}, "1.0.0")
	want := component{"application", "example.org/a/cmd/b", "v1.0.0", "pkg:golang/example.org/a@v1.0.0#cmd/b"}
	if err != nil || made.Metadata.Component != want {
		t.Errorf("%+v %v, want %+v", made.Metadata.Component, err, want)
	}
}

func TestOfNoProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sbom.json")
	if err := write("main.go", "1.0.0", file); err == nil {
		t.Error("a source file is taken for a program")
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("something was written")
	}
	if _, err := describe(&debug.BuildInfo{GoVersion: "go1.26.1"}, "1.0.0"); err == nil {
		t.Error("a program that says nothing is taken for one with nothing in it")
	}
}
