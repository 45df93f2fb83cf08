package rig

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// OtherProvider is twenty VMs of another provider: the state that it wrote, the cluster that belongs to it, and the same VMs in the words of this
// provider.
type OtherProvider struct {
	Dir    string
	Config string
	moves  map[string]string // block of theirs to block of ours
	Theirs []OtherInstance
}

// OtherInstance is an instance in their state with its address in ours.
type OtherInstance struct {
	From, To string
	terraformtest.Foreign
	Attributes map[string]json.RawMessage
}

// stateFile is a state file, as far as it counts here.
type stateFile struct {
	Resources []struct {
		Mode, Type, Name, Provider string
		Instances                  []struct {
			Key        json.RawMessage `json:"index_key"`
			Version    int64           `json:"schema_version"`
			Attributes json.RawMessage
			Private    []byte
		}
	}
}

// ReadOtherProvider reads the states and configurations of a provider from testdata.
func ReadOtherProvider(t *testing.T, peer string) OtherProvider {
	t.Helper()
	e := OtherProvider{Dir: filepath.Join("..", "adoption", "testdata", "move", peer), moves: map[string]string{}}
	e.Config = ReadFile(t, filepath.Join(e.Dir, "main.tf"))
	blocks := regexp.MustCompile(`(?s)moved \{\s+from = (\S+)\s+to\s+= (\S+)\s+\}`)
	for _, m := range blocks.FindAllStringSubmatch(ReadFile(t, filepath.Join(e.Dir, "moved.tf")), -1) {
		e.moves[m[1]] = m[2]
	}
	var file stateFile
	Must(t, json.Unmarshal([]byte(ReadFile(t, filepath.Join(e.Dir, "state.json"))), &file))
	for _, r := range file.Resources {
		from := r.Type + "." + r.Name
		address := regexp.MustCompile(`"(.*)"`).FindStringSubmatch(r.Provider)
		if e.moves[from] == "" || len(address) != 2 {
			t.Fatalf("%s of %s moves nowhere", from, r.Provider)
		}
		for _, i := range r.Instances {
			f := OtherInstance{From: from, To: e.moves[from], Foreign: terraformtest.Foreign{Provider: address[1], Type: r.Type, Version: i.Version,
				JSON: i.Attributes, Private: i.Private}}
			if len(i.Key) > 0 {
				f.From, f.To = f.From+"["+string(i.Key)+"]", f.To+"["+string(i.Key)+"]"
			}
			Must(t, json.Unmarshal(i.Attributes, &f.Attributes))
			e.Theirs = append(e.Theirs, f)
		}
	}
	if len(e.Theirs) != 20 {
		t.Fatalf("%d VMs", len(e.Theirs))
	}
	return e
}

// World is the cluster that the state speaks of.
func (e OtherProvider) World(t *testing.T, o pvesim.Options) *World {
	t.Helper()
	var err error
	o.World, err = state.Read([]byte(ReadFile(t, filepath.Join(e.Dir, "world.yaml"))))
	Must(t, err)
	return NewWorld(t, o)
}

// Moved is a session whose state came from the other provider, unrefreshed.
func (e OtherProvider) Moved(t *testing.T, w *World, id Identity) *terraformtest.Session {
	t.Helper()
	s := w.Session(t, id, e.Config)
	w.ResetCalls()
	for _, f := range e.Theirs {
		Must(t, s.Move(t.Context(), f.To, f.Foreign))
		if said := s.Diagnostics(); len(said) > 0 {
			t.Errorf("%s: %v", f.From, said)
		}
		identity, err := s.Identity(t.Context(), f.To)
		Must(t, err)
		if is, vmid := terraformtest.At(identity, "vmid"), s.Attr(f.To, "vmid"); vmid.IsNull() || !is.RawEquals(vmid) {
			t.Errorf("%s: moved, VM %s has the identity %#v", f.From, terraformtest.ShowValue(vmid), identity)
		}
	}
	for _, c := range w.Calls() {
		if len(c.Ops) > 0 {
			t.Errorf("%s %s makes requests: %v", c.RPC, c.Address, c.Ops)
		}
	}
	return s
}

// OtherProviders returns the providers whose states can be moved.
func OtherProviders() []string { return []string{"bpg", "telmate"} }

// EveryProvider are settings with which each provider in the states is the program in dir: a CLI wants one for each address in a state,
// and asks the former owners nothing.
func EveryProvider(t *testing.T, dir string) string {
	t.Helper()
	text := "provider_installation {\n  dev_overrides {\n"
	for _, source := range []string{"terraform-proxmox/proxmox", "bpg/proxmox", "telmate/proxmox"} {
		text += fmt.Sprintf("    %q = %q\n", source, dir)
	}
	name := filepath.Join(dir, "all.tfrc")
	Must(t, os.WriteFile(name, []byte(text+"  }\n}\n"), 0o600))
	return name
}
