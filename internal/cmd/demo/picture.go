package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// recorded has what each side of the picture printed when it was last played.
//
//go:embed recorded/*.json
var recorded embed.FS

//go:embed peer/picture.tf
var peerConfig []byte

// The files that the picture is kept in, from the project's folder.
const (
	pictureFile = "docs/pictures/failed-create.svg"
	recordedDir = "internal/cmd/demo/recorded"
)

// pictured is the id of the VM whose create fails.
const pictured = 101

// scene is one side of the picture: a create that failed, and what there was afterwards.
type scene struct {
	Provider string   `json:"provider"`
	Played   string   `json:"played"` // the day, and the CLI
	Said     string   `json:"said"`   // from the first error on
	Server   []string `json:"server"` // guests and volumes with the VM's id
	State    []string `json:"state"`
}

// pictureOptions are the sides to play again. A side that is not played keeps its recording.
type pictureOptions struct {
	peer, peerVersion string // a binary of bpg's provider, "" for none
	day               string
	cluster           pvesim.Options
}

// takePicture plays this provider's side, and the other one's if there is a binary of it, and draws what they printed.
func takePicture(ctx context.Context, out io.Writer, o pictureOptions) error {
	terraform, err := findCLI()
	if err != nil {
		return err
	}
	if terraform == "" {
		return errors.New("the picture takes terraform or tofu on PATH, or as TF_CLI")
	}
	scenes, err := readScenes()
	if err != nil {
		return err
	}
	if scenes[0], err = play(ctx, out, o, terraform, ""); err != nil {
		return err
	}
	if o.peer != "" && o.peerVersion == "" {
		return errors.New("the picture takes the version of BENCH_PEER, too: PEER_VERSION")
	}
	if o.peer != "" {
		if scenes[1], err = play(ctx, out, o, terraform, o.peer); err != nil {
			return err
		}
	}
	for i, name := range sceneFiles() {
		text, err := json.MarshalIndent(scenes[i], "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(recordedDir, name), append(text, '\n'), 0o600); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "Drawing "+pictureFile)
	return os.WriteFile(pictureFile, []byte(draw(scenes)), 0o600)
}

func sceneFiles() []string { return []string{"proxmox.json", "peer.json"} }

// readScenes are the recorded sides, this provider's first.
func readScenes() ([]scene, error) {
	scenes := make([]scene, len(sceneFiles()))
	for i, name := range sceneFiles() {
		text, err := recorded.ReadFile("recorded/" + name)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &scenes[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return scenes, nil
}

// failTheStart lets the start of the VM fail, as on a node without memory.
func failTheStart(world *rig.World) {
	world.Change(func(w *state.World) { delete(w.Guests[9000].Config, "protection") }) // bpg's provider cannot clone one that has it
	world.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/start"},
		Phase: fault.Task, Times: -1, Reason: "start failed: QEMU exited with code 1"}})
}

// play applies one side's configuration to a cluster of its own. peer is bpg's binary, "" for this provider.
func play(ctx context.Context, out io.Writer, o pictureOptions, terraform, peer string) (s scene, err error) {
	world, err := rig.OpenWorld(o.cluster)
	if err != nil {
		return s, err
	}
	defer world.Close()
	failTheStart(world)
	dir, err := os.MkdirTemp("", "proxmox-picture-")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := newCLI(ctx, out, world, terraform, dir)
	if err != nil {
		return s, err
	}
	s.Provider, s.Played = "terraform-proxmox/proxmox", o.day
	if peer == "" {
		err = c.configure([]string{"provider.tf", "picture.tf"}, nil)
	} else {
		s.Provider = "bpg/proxmox " + o.peerVersion
		err = c.usePeer(peer)
	}
	if err != nil {
		return s, err
	}
	r := c.apply(ctx)
	at := strings.Index(r.output, "Error: ")
	if r.ok || at < 0 || world.Sim.FaultsFired() == 0 {
		return s, fmt.Errorf("the create of %s did not fail in its start:\n%s", s.Provider, r.output)
	}
	s.Said = strings.TrimSpace(r.output[at:])
	s.Server, s.State = leftOnServer(world), c.kept(ctx)
	return s, nil
}

// usePeer makes bpg's binary the provider, and its configuration the configuration.
func (c *cli) usePeer(binary string) error {
	rc := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"bpg/proxmox\" = %q\n  }\n  direct {}\n}\n"+
		"disable_checkpoint = true\n", filepath.Dir(binary))
	if err := os.WriteFile(c.config, []byte(rc), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.dir, "picture.tf"), peerConfig, 0o600)
}

// kept is what is in state, with "(tainted)" behind what the next apply replaces.
func (c *cli) kept(ctx context.Context) []string {
	var pulled struct {
		Resources []struct {
			Type, Name string
			Instances  []struct{ Status string }
		}
	}
	all := []string{}
	if code, text := c.run(ctx, "state", "pull"); code != 0 || json.Unmarshal([]byte(text), &pulled) != nil {
		return all
	}
	for _, r := range pulled.Resources {
		for _, i := range r.Instances {
			name := r.Type + "." + r.Name
			if i.Status != "" {
				name += " (" + i.Status + ")"
			}
			all = append(all, name)
		}
	}
	return all
}

// leftOnServer is what has the VM's id.
func leftOnServer(world *rig.World) []string {
	all := []string{}
	world.Change(func(w *state.World) {
		if g := w.Guests[pictured]; g != nil {
			status := "stopped"
			if g.Running != nil {
				status = "running"
			}
			all = append(all, fmt.Sprintf("VM %d (%s, %s)", pictured, g.Config["name"], status))
		}
		var volumes []string
		for _, v := range w.Volumes {
			if v.VMID == pictured {
				volumes = append(volumes, v.Storage+":"+v.Name)
			}
		}
		slices.Sort(volumes)
		all = append(all, volumes...)
	})
	return all
}

// upid is the part of a task's id that is another one in each run.
var upid = regexp.MustCompile(`UPID:\w+:[0-9A-F]{8}:[0-9A-F]{8}:[0-9A-F]{8}:`)

// today is the day for a recording.
func today() string { return time.Now().UTC().Format(time.DateOnly) }
