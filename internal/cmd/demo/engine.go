package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hashicorp/hc-install/product"
	"github.com/hashicorp/hc-install/releases"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

//go:embed configs/*.tf
var configs embed.FS

// result is what an operation said.
type result struct {
	ok      bool
	changes bool   // of a plan: there is something to do
	output  string // everything printed
}

// engine is Terraform, or what stands for it.
type engine interface {
	// configure makes the named files of configs, with replacements of text, the configuration.
	configure(files []string, replace map[string]string) error
	plan(ctx context.Context) result
	apply(ctx context.Context) result
	destroy(ctx context.Context) result
	importID(ctx context.Context, address, id string) result
	forget(ctx context.Context, address string) result
	// addresses lists what is in state.
	addresses(ctx context.Context) []string
}

// chooseEngine takes the first that is to be had: a CLI, an installed CLI, none.
func chooseEngine(ctx context.Context, out io.Writer, o options, world *rig.World, dir string) (engine, error) {
	if o.inProcess {
		fmt.Fprintln(out, "Without Terraform: the configurations are driven through the plugin protocol.")
		return newProtocol(world), nil
	}
	path, err := findCLI()
	if err != nil {
		return nil, err
	}
	if path == "" {
		fmt.Fprintln(out, "No terraform or tofu on PATH: installing one into .tools/ ...")
		path, err = installCLI(ctx)
	}
	if err != nil {
		fmt.Fprintf(out, "No Terraform to be had (%v): the same configurations are driven through the plugin protocol.\n", root(err))
		return newProtocol(world), nil
	}
	return newCLI(ctx, out, world, path, dir)
}

// root is the innermost error: what happened, without who was asked how often.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// findCLI looks where the environment says, then on PATH; "" if there is none. A TF_CLI that is no program is an error.
func findCLI() (string, error) {
	if name := os.Getenv("TF_CLI"); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("TF_CLI: %w", err)
		}
		return filepath.Abs(path)
	}
	for _, name := range []string{"terraform", "tofu", filepath.Join(".tools", "terraform")} {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", nil
}

// installCLI fetches the newest Terraform into the project's folder.
func installCLI(ctx context.Context) (string, error) {
	if err := os.MkdirAll(".tools", 0o755); err != nil {
		return "", err
	}
	dir, err := filepath.Abs(".tools")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	latest := &releases.LatestVersion{Product: product.Terraform, InstallDir: dir, Timeout: 2 * time.Minute}
	return latest.Install(ctx)
}

// variables are the values of provider.tf's variables.
func variables(world *rig.World) (map[string]string, error) {
	host, port1, err := net.SplitHostPort(world.Sim.SSHAddressOf("pve1"))
	if err != nil {
		return nil, err
	}
	_, port2, err := net.SplitHostPort(world.Sim.SSHAddressOf("pve2"))
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"endpoint": world.Sim.Endpoint(), "api_token": world.Sim.Credentials().Token, "ca_certificate": world.Sim.CAPEM(),
		"ssh_host": host, "ssh_port_pve1": port1, "ssh_port_pve2": port2,
		"ssh_private_key": string(world.Sim.SSHPrivateKeyPEM()), "ssh_known_hosts": string(world.Sim.SSHKnownHosts()),
	}, nil
}
