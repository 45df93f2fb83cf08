// Command sbom writes what is built into a Go program, as the program itself says it, in CycloneDX: its modules with their versions, and
// the standard library. The same program gives the same text: there is neither a time nor a serial number in it.
//
// Usage: sbom PROGRAM VERSION FILE
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM VERSION FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// The parts of CycloneDX 1.5 that are used here.
type (
	document struct {
		Format      string      `json:"bomFormat"`
		SpecVersion string      `json:"specVersion"`
		Version     int         `json:"version"`
		Metadata    metadata    `json:"metadata"`
		Components  []component `json:"components"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl"`
	}
)

func write(program, version, file string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	made, err := describe(info, version)
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	text, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func describe(info *debug.BuildInfo, version string) (document, error) {
	if info.Main.Path == "" || len(info.Deps) == 0 {
		return document{}, errors.New("it does not say what is built in")
	}
	// The standard library has the version of the toolchain: "go1.26.1", perhaps with experiments behind it.
	toolchain, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	all := []component{of("library", "std", toolchain)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, of("library", m.Path, m.Version))
	}
	program := of("application", info.Main.Path, "v"+version)
	if below, ok := strings.CutPrefix(info.Path, info.Main.Path+"/"); ok { // one of several programs of the module
		program.Name, program.PURL = info.Path, program.PURL+"#"+below
	}
	return document{Format: "CycloneDX", SpecVersion: "1.5", Version: 1, Metadata: metadata{program}, Components: all}, nil
}

func of(kind, path, version string) component {
	return component{kind, path, version, "pkg:golang/" + path + "@" + version}
}
