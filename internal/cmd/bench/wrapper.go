package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// pluginName is the name under which Terraform looks for the provider's executable.
const pluginName = "terraform-provider-proxmox"

// Where the wrapper finds the provider that it stands for, and puts what the provider has used, beside itself.
const (
	wrappedFile = "wrapped.txt"
	usageDir    = "usage"
)

// usage is what a process has used.
type usage struct {
	CPU time.Duration `json:"cpu"` // user and system
	RSS int64         `json:"rss"` // bytes at the peak
}

// wrapped is what the wrapper tells of one life of the provider.
type wrapped struct {
	Provider usage         `json:"provider"`
	Wrapper  time.Duration `json:"wrapper"` // its own CPU
}

// isWrapper reports whether this program was started as a provider. Terraform adds the CPU of its children to its own; this
// program in between, with the provider as its child, is what tells them apart without changing either.
func isWrapper(program string) bool { return strings.HasPrefix(filepath.Base(program), pluginName) }

// wrap runs the provider in the place of this process, notes what it has used, and returns its exit status.
func wrap(program string) int {
	status, err := wrapIn(filepath.Dir(program))
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return status
}

func wrapIn(dir string) (int, error) {
	signal.Ignore(os.Interrupt) // the provider decides; Terraform's Ctrl-C reaches both
	path, err := os.ReadFile(filepath.Join(dir, wrappedFile))
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(context.Background(), string(path), os.Args[1:]...) // Terraform ends it
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	text, err := json.Marshal(wrapped{Provider: usageOf(cmd.ProcessState), Wrapper: ownCPU()})
	if err != nil {
		return 0, err
	}
	file := filepath.Join(dir, usageDir, strconv.Itoa(os.Getpid()))
	return max(cmd.ProcessState.ExitCode(), 0), os.WriteFile(file, text, 0o600)
}

// collect sums up what the lives of the provider used since the last call.
func collect(dir string) (sum wrapped, lives int, err error) {
	files, err := filepath.Glob(filepath.Join(dir, usageDir, "*"))
	if err != nil {
		return sum, 0, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return sum, 0, err
		}
		var one wrapped
		if err := json.Unmarshal(text, &one); err != nil {
			return sum, 0, fmt.Errorf("%s: %w", file, err)
		}
		sum.Provider.CPU += one.Provider.CPU
		sum.Provider.RSS = max(sum.Provider.RSS, one.Provider.RSS)
		sum.Wrapper += one.Wrapper
		if err := os.Remove(file); err != nil {
			return sum, 0, err
		}
	}
	return sum, len(files), nil
}
