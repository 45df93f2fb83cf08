package permissions_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ssh"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// hostileNames are names that a shell would make something else of.
func hostileNames() []string {
	return []string{"a b", "it's", `say "x"`, "$(reboot)", "`reboot`", "${HOME}", "a;reboot", "a && reboot", "a | tee b", "a > b", "a\nreboot\n",
		"a\r\nb", "\ta", "-rf", "--help", "~root", "*", "?[a-z]", "!!", "#", `a\`, `\'`, "a=b", "é日本", "%s%n", "&", "(a)", "{a,b}", "..", "'; reboot; '"}
}

// shellOf is a Shell on the nodes of a world.
func shellOf(t *testing.T, w *rig.World) *ssh.Shell {
	t.Helper()
	shell, err := ssh.New(ssh.Config{PrivateKeyPEM: w.Sim.SSHPrivateKeyPEM(), KnownHosts: w.Sim.SSHKnownHosts(), Dial: w.Sim.SSHDial})
	rig.Must(t, err)
	t.Cleanup(func() { rig.Must(t, shell.Close()) })
	return shell
}

// TestInjection gives the node's programs, and its files, names that a shell would make something else of: each arrives as it is.
func TestInjection(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	shell := shellOf(t, w)
	for _, name := range hostileNames() {
		_, err := shell.Run(t.Context(), "pve1", "sha256sum", "--", name)
		var failed *ssh.Error
		if want := fmt.Sprintf("sha256sum: %s: No such file or directory", name); !errors.As(err, &failed) || failed.Stderr != strings.TrimSpace(want) {
			t.Errorf("%q: the program was given %#v", name, failed)
		}
		if strings.Contains(name, "/") || name == ".." {
			continue
		}
		path := "/root/" + name
		rig.Must(t, shell.CreateFile(t.Context(), "pve1", path, []byte(name), 0o600))
		w.Change(func(world *state.World) {
			if got, ok := world.Nodes["pve1"].Files[path]; !ok || got != name {
				t.Errorf("%q: the file holds %q", path, got)
			}
		})
		if err := shell.CreateFile(t.Context(), "pve1", path, []byte("other"), 0o600); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%q was made twice: %v", path, err)
		}
		rig.Must(t, shell.RemoveFile(t.Context(), "pve1", path, ssh.SHA256Of([]byte(name))))
	}
	for _, name := range hostileNames() { // as names of volumes: refused before anything is sent, or taken as they are
		before := w.Sim.LastOp()
		path, err := shell.VolumePath(t.Context(), "pve1", "local:snippets/"+name)
		if err == nil && path != "/var/lib/vz/snippets/"+name || err != nil && w.Sim.LastOp() > before && !strings.Contains(err.Error(), "unable to parse") {
			t.Errorf("volume %q is at %q, %v", name, path, err)
		}
	}
	w.MustBeClean(t)
}

// TestInjectionOfSources: files of such names are imported as they are called.
func TestInjectionOfSources(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	shell, imported := shellOf(t, w), 0
	for n, name := range hostileNames() {
		if strings.ContainsAny(name, ",\r\n\t") { // PVE takes no such path in an option
			continue
		}
		path, slot := "/root/"+name+".img", fmt.Sprintf("scsi%d", n+1)
		w.Change(func(world *state.World) { world.Nodes["pve1"].Files[path] = "the file " + name })
		_, err := shell.SetVM(t.Context(), "pve1", 8000, map[string]string{slot: "local-zfs:0,import-from=" + path}, "")
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		imported++
		w.Change(func(world *state.World) {
			volid, _, _ := strings.Cut(world.Guests[8000].Config[slot], ",")
			if v := world.Volume("pve1", volid); v == nil || v.Data != "the file "+name {
				t.Errorf("%q: %s is %+v", name, slot, v)
			}
		})
	}
	if imported < 20 {
		t.Errorf("only %d files were imported", imported)
	}
}
