package main

import (
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

// These bound the garbage collector. A plan makes some hundred kilobytes of garbage for every VM and keeps next to
// nothing of it. With Go's own target (100 %) the collector runs for every few VMs and takes a fifth of the processor
// time. With this one the heap grows to five times the live data, a few dozen megabytes. The limit takes precedence:
// near it the collector runs as often as it must.
const (
	garbageTarget = 400       // percent of what lives
	memoryLimit   = 256 << 20 // bytes; a soft limit, so a cluster that needs more gets it
)

// environment is the process's environment variables; a test has others.
type environment struct {
	get func(name string) string
	set func(name, value string) error
}

func osEnvironment() environment { return environment{get: os.Getenv, set: os.Setenv} }

// boundGarbage sets the collector's target and limit, unless the user has set Go's own variables for them.
func boundGarbage(env environment) {
	if env.get("GOGC") != "" || env.get("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(garbageTarget)
	debug.SetMemoryLimit(memoryLimit)
}

// quieten keeps the plugin libraries from writing log lines that Terraform would throw away. With no level set they
// write everything, TF_LOG or not: 1,200 lines for an unchanged VM, which Terraform parses before it drops them. So the
// level that Terraform shows becomes theirs, off if it shows none. A library's own variable takes precedence.
func quieten(env environment) error {
	level := shown(env)
	if level == "" {
		return nil
	}
	loggers := []string{"TF_LOG_PROVIDER_PROXMOX"}
	if env.get("TF_LOG_SDK") == "" { // the two below it have its level unless they have their own
		loggers = append(loggers, "TF_LOG_SDK", "TF_LOG_SDK_FRAMEWORK", "TF_LOG_SDK_PROTO")
	}
	for _, name := range loggers {
		if env.get(name) != "" {
			continue
		}
		if err := env.set(name, level); err != nil {
			return err
		}
	}
	return nil
}

// isLogged tells whether the lines that sum operations up, at INFO, are shown to anybody.
func isLogged(env environment) bool {
	for _, level := range []string{shown(env), env.get("TF_LOG_PROVIDER_PROXMOX")} {
		if slices.Contains([]string{"WARN", "ERROR", "OFF"}, strings.ToUpper(level)) {
			return false
		}
	}
	return true
}

// isSilent tells whether Terraform shows no line of a provider's.
func isSilent(env environment) bool { return shown(env) == "OFF" }

// shown is the lowest level of a provider's lines that Terraform and OpenTofu show (internal/logging), "" for all.
func shown(env environment) string {
	level := env.get("TF_LOG_PROVIDER")
	if level == "" {
		level = env.get("TF_LOG")
	}
	switch level = strings.ToUpper(level); {
	case level == "":
		return "OFF"
	case slices.Contains([]string{"DEBUG", "INFO", "WARN", "ERROR", "OFF"}, level):
		return level
	default: // TRACE and JSON; what is no level counts as TRACE
		return ""
	}
}
