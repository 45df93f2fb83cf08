package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// terraform is a Terraform or OpenTofu binary.
type terraform struct {
	binary, version string
	said            string // by the last command
}

func newTerraform(ctx context.Context) (*terraform, error) {
	names := []string{"terraform", "tofu"}
	if cli := os.Getenv("TF_CLI"); cli != "" {
		names = []string{cli}
	}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, path, "version")
		cmd.Env = environment(os.DevNull)
		text, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s version: %w", path, err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		return &terraform{binary: path, version: first}, nil
	}
	return nil, fmt.Errorf("none of %s is a program: Terraform or OpenTofu is needed", strings.Join(names, ", "))
}

// environment is this process's without what would change a measurement, with the CLI's configuration in a file.
func environment(config string) []string {
	kept := []string{"TF_CLI_CONFIG_FILE=" + config, "TF_IN_AUTOMATION=1", "TF_INPUT=0", "CHECKPOINT_DISABLE=1"}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "TF_") && !strings.HasPrefix(kv, "PROXMOX_VE_") {
			kept = append(kept, kv)
		}
	}
	return kept
}

// cost is what one command took.
type cost struct {
	Provider  usage
	Terraform usage // without its provider
	Wall      time.Duration
}

// run runs a command in a side's directory. Whatever ends it with another status than 0 is an error: an unchanged VM with a change
// in its plan would be measured at something else.
func (t *terraform) run(ctx context.Context, s *side, args ...string) (cost, error) {
	if _, _, err := collect(s.plugins); err != nil {
		return cost{}, err
	}
	var text bytes.Buffer
	cmd := exec.CommandContext(ctx, t.binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, environment(s.cliConfig), &text, &text
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return cost{}, err
	}
	peak := watchPeak(cmd.Process.Pid)
	err := cmd.Wait()
	c := cost{Wall: time.Since(begin)}
	c.Terraform.RSS = peak()
	t.said = text.String()
	if err != nil {
		return c, fmt.Errorf("%s: terraform %s: %w\n%s", s.who, strings.Join(args, " "), err, tail(text.String()))
	}
	provider, lives, err := collect(s.plugins)
	if err != nil {
		return c, err
	}
	if lives == 0 && s.provider {
		return c, errors.New("the provider ended without telling what it used")
	}
	c.Provider = provider.Provider
	c.Terraform.CPU = usageOf(cmd.ProcessState).CPU - provider.Provider.CPU - provider.Wrapper
	return c, nil
}

// tail is the end of a long text.
func tail(text string) string {
	const most = 4000
	if len(text) > most {
		return "..." + text[len(text)-most:]
	}
	return text
}

// peakInterval is how often the peak of a running process is read. The kernel keeps it, so that only what a process takes in its
// last moment is missed.
const peakInterval = 10 * time.Millisecond

// watchPeak watches a process; the function that it returns ends that and gives the peak of its memory in bytes, 0 where the
// system has no /proc. The figure that the system keeps for later is no use: it starts with this process's own.
func watchPeak(pid int) func() int64 {
	stop, result := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(peakInterval)
		defer tick.Stop()
		var peak int64
		for {
			peak = max(peak, peakOf(pid))
			select {
			case <-tick.C:
			case <-stop:
				result <- peak
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-result
	}
}

var highWater = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

func peakOf(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	m := highWater.FindSubmatch(text)
	if m == nil {
		return 0
	}
	kib, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
