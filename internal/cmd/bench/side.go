package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
)

const mainPackage = "github.com/terraform-proxmox/terraform-provider-proxmox"

// configs has a configuration per side, all of the same VMs.
//
//go:embed configs
var configs embed.FS

// directories are where configs has them.
var directories = map[string]string{whoProvider: "proxmox", whoPeer: "peer", whoFloor: "floor"}

// side is one of those that are compared, with a working directory of its own.
type side struct {
	who       string
	provider  bool   // it has one, behind a wrapper
	dir       string // with configuration and state
	plugins   string
	cliConfig string
	binary    string // the provider's own

	spread     bool // every other VM is on the node that will be away
	generation int  // of what an update changes
}

// build makes the provider from this source, with the flags of all other builds: its packages are compiled already.
func build(ctx context.Context, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, mainPackage)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the provider: %w\n%s", err, text)
	}
	return nil
}

// newSide lays out a side below dir. address is the provider's source address, binary the provider; both "" for none.
func newSide(dir, who, address, binary string) (*side, error) {
	base := filepath.Join(dir, directories[who])
	s := &side{
		who: who, provider: binary != "", dir: filepath.Join(base, "work"), plugins: filepath.Join(base, "plugins"),
		cliConfig: filepath.Join(base, "cli.tfrc"),
	}
	for _, d := range []string{s.dir, filepath.Join(s.plugins, usageDir)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	for from, to := range map[string]string{"configs/variables.tf": "variables.tf", "configs/" + directories[who] + "/main.tf": "main.tf"} {
		text, err := configs.ReadFile(from)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(s.dir, to), text, 0o600); err != nil {
			return nil, err
		}
	}
	overrides := ""
	if s.provider {
		overrides = fmt.Sprintf("  dev_overrides {\n    %q = %q\n  }\n", address, s.plugins)
		if err := s.wrapProvider(binary); err != nil {
			return nil, err
		}
	}
	config := fmt.Sprintf("provider_installation {\n%s  direct {}\n}\ndisable_checkpoint = true\n", overrides)
	return s, os.WriteFile(s.cliConfig, []byte(config), 0o600)
}

// wrapProvider puts this program where Terraform looks for the provider.
func (s *side) wrapProvider(binary string) error {
	if info, err := os.Stat(binary); err != nil {
		return err
	} else if info.IsDir() {
		return fmt.Errorf("%s is a directory, not the provider's executable", binary)
	}
	absolute, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.plugins, wrappedFile), []byte(absolute), 0o600); err != nil {
		return err
	}
	s.binary = absolute
	return s.wrap()
}

// wrap has Terraform find this program in the place of the provider.
func (s *side) wrap() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return s.link(self)
}

// unwrap has Terraform find the provider itself: where time is measured, another process in between would count. Its CPU is then told
// together with Terraform's. The function that it returns takes that back.
func (s *side) unwrap() (back func()) {
	if s.link(s.binary) != nil {
		return func() {}
	}
	s.provider = false
	return func() {
		s.provider = s.wrap() == nil
	}
}

func (s *side) link(to string) error {
	at := filepath.Join(s.plugins, pluginName)
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(to, at)
}

// sshKey is a public key for cloud-init.
const sshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJUWfVZMyWxb3ChGAKPF2O9vRIsmR9R9jVRn1HUeSYOH ops@example.org"

// variables are the values of configs/variables.tf.
type variables struct {
	Endpoint      string `json:"endpoint"`
	APIToken      string `json:"api_token"`
	CACertificate string `json:"ca_certificate"`
	SSHPrivateKey string `json:"ssh_private_key"`
	SSHKey        string `json:"ssh_key"`
	Plain         int    `json:"plain"`
	Clones        int    `json:"clones"`
	Spread        bool   `json:"spread"`
	Generation    int    `json:"generation"`
}

// configure tells the configuration where the cluster is and how many VMs of each kind there are.
func (s *side) configure(sim *pvesim.Sim, plain, clones int) error {
	text, err := json.Marshal(variables{
		Endpoint: sim.Endpoint(), APIToken: sim.Credentials().Token, CACertificate: sim.CAPEM(),
		SSHPrivateKey: string(sim.SSHPrivateKeyPEM()), SSHKey: sshKey, Plain: plain, Clones: clones,
		Spread: s.spread, Generation: s.generation,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, "terraform.tfvars.json"), text, 0o600)
}

func (s *side) stateFile() string { return filepath.Join(s.dir, "terraform.tfstate") }

// forget removes the state.
func (s *side) forget() error {
	for _, name := range []string{s.stateFile(), s.stateFile() + ".backup"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
