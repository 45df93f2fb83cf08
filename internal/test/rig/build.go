package rig

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// projectDir is the top of the project, as each package of tests sees it.
const projectDir = "../../.."

// builtProvider returns the path of the provider built from this source. All packages of tests share one program: `go build`
// takes half a second if the source has not changed.
func builtProvider() (string, error) {
	top, err := filepath.Abs(projectDir)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("terraform-provider-proxmox-%d-%.8x", os.Getuid(), sha256.Sum256([]byte(top)))
	dir := filepath.Join(os.TempDir(), name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "terraform-provider-proxmox")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", path, projectDir)
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the provider: %w\n%s", err, text)
	}
	return path, nil
}
