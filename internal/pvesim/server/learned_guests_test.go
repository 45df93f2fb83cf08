package server

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestStartRefusals: values that a configuration may hold and no start takes (qemu-server QemuServer.pm,
// config_to_command; QemuServer/Memory.pm; QemuServer/Machine.pm).
func TestStartRefusals(t *testing.T) {
	g := newRig(t, nil)
	cpus := 0
	g.s.Do(func(w *state.World) { cpus = w.Nodes["pve1"].CPUs })
	have := g.w.QEMUVersion()
	for _, c := range []struct{ params, want, log string }{
		{"cores=128", fmt.Sprintf("MAX %d vcpus allowed per VM on this node", cpus), ""},
		{"hotplug=memory&memory=2048", "NUMA needs to be enabled for memory hotplug", ""},
		{"hotplug=memory&memory=512&numa=1", "minimum memory must be 1024MB", ""},
		{"hotplug=memory&memory=1100&numa=1", "memory size (1100) must be aligned to 512 for hotplugging", ""},
		{"machine=pc-q35-99.9", "Installed QEMU version '" + have +
			"' is too old to run machine type 'pc-q35-99.9+pve0', please upgrade node 'pve1'", ""},
		{"cores=2&vcpus=9", "start failed: QEMU exited with code 1", "maxcpus must be equal to or greater than smp"},
		{"net0=virtio,bridge%3Dvmbr0&cores=2&memory=1024", "OK", ""},
		{"hotplug=memory&memory=2048&numa=1", "OK", ""},
	} {
		g.steps([]step{
			{"", "POST", "/qemu", "vmid=100&" + c.params, "OK"},
			{"", "POST", "/qemu/100/status/start", "", c.want},
		})
		g.logs(c.log)
		g.steps([]step{{"", "POST", "/qemu/100/status/stop", "", "OK"}, {"", "DELETE", "/qemu/100", "", "OK"}})
	}
}

// TestStartOptionsOfRoot: those that migrations use (API2/Qemu.pm, vm_start).
func TestStartOptionsOfRoot(t *testing.T) {
	g := newRig(t, nil)
	const start = "/qemu/8000/status/start"
	g.steps([]step{
		{"", "POST", start, "stateuri=tcp", "stateuri: Only root may use this option."},
		{"", "POST", start, "targetstorage=1", "targetstorage: Only root may use this option."},
		{"", "POST", start, "skiplock=1", "skiplock: Only root may use this option."},
		{"root", "POST", start, "targetstorage=1", "targetstorage: targetstorage can only by used with migratedfrom."},
		{"", "POST", start, "skiplock=0", "OK"},
	})
}

// TestMachineIsPinned: a Windows guest keeps the machine that it was made with (QemuServer/Machine.pm,
// check_and_pin_machine_string).
func TestMachineIsPinned(t *testing.T) {
	newest := map[string]string{"7.4": "8.0", "8.0": "8.0", "8.2": "8.1", "8.4": "9.2+pve1", "9.0": "10.0+pve1",
		"9.2": "11.0+pve2"}
	eachProfile(t, func(t *testing.T, profile string, g *rig) {
		machine := "pc-i440fx-" + newest[profile]
		g.steps([]step{{"", "POST", "/qemu", "vmid=100&ostype=win11", "OK"}})
		if logged := strings.Contains(g.lastLog(),
			"pinning machine type to '"+machine+"' for Windows guest OS"); logged != (profile >= "8.4") {
			t.Errorf("the log: %s", g.lastLog())
		}
		g.steps([]step{
			{"", "POST", "/qemu", "vmid=101&ostype=l26", "OK"},
			{"", "PUT", "/qemu/101/config", "ostype=win11", "OK"},
			{"", "POST", "/qemu", "vmid=102&ostype=win11&machine=q35", "OK"},
			{"", "PUT", "/qemu/101/config", "ostype=l26", "OK"},
		})
		onUpdate := any(machine) // and stays when the guest is none any more
		if profile < "8.4" {
			onUpdate = nil
		}
		for id, want := range map[string]any{"100": machine, "101": onUpdate, "102": "pc-q35-" + newest[profile]} {
			if got := g.config(id)["machine"]; got != want {
				t.Errorf("machine of VM %s: %v, want %v", id, got, want)
			}
		}
	})
}

// TestRefusedChangeChangesNothing: PVE dies before it writes.
func TestRefusedChangeChangesNothing(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{{"", "POST", "/qemu",
		"vmid=100&scsi0=local-zfs:1&scsi1=local-zfs:1&boot=order%3Dscsi0%3Bscsi1&protection=1", "OK"}})
	before, pending := g.config("100"), g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/100/pending", "").body.Data
	for _, c := range []struct{ params, want string }{
		{"delete=scsi1", "can't remove drive 'scsi1' - protection mode enabled"},
		{"delete=scsi0,scsi1&name=other", "can't remove drive 'scsi0' - protection mode enabled"},
		{"name=other&balloon=4096", "balloon value too large (must be smaller than assigned memory)"},
		{"name=other&delete=nosuch", "delete: unknown option 'nosuch'"},
		{"name=other&digest=0000000000000000000000000000000000000000", "checksum mismatch (file change by other user?)"},
	} {
		g.steps([]step{{"", "PUT", "/qemu/100/config", c.params, c.want}})
		if diff := cmp.Diff(before, g.config("100")); diff != "" {
			t.Errorf("%s changed the configuration:\n%s", c.params, diff)
		}
		if diff := cmp.Diff(pending, g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/100/pending", "").body.Data); diff != "" {
			t.Errorf("%s changed what is pending:\n%s", c.params, diff)
		}
	}
}

// TestUnitsOfControlGroups: cgroup v2 knows weights from 1 to 10,000 (pve-common CGroup.pm; API2/Qemu.pm).
func TestUnitsOfControlGroups(t *testing.T) {
	for _, c := range []struct {
		old        bool
		sent, kept string
	}{
		{false, "20000", "10000"}, {false, "1", "1"}, {false, "500", "500"},
		{true, "20000", "20000"}, {true, "1", "2"},
	} {
		g := newRig(t, nil)
		g.s.Do(func(w *state.World) { w.Nodes["pve1"].CGroupV1 = c.old })
		g.steps([]step{
			{"", "POST", "/qemu", "vmid=100&cpuunits=" + c.sent, "OK"},
			{"", "POST", "/qemu", "vmid=101", "OK"},
			{"", "PUT", "/qemu/101/config", "cpuunits=" + c.sent, "OK"},
		})
		for _, id := range []string{"100", "101"} {
			if got := fmt.Sprint(g.config(id)["cpuunits"]); got != c.kept {
				t.Errorf("cgroup v1 %v: %s is kept as %s of VM %s, want %s", c.old, c.sent, got, id, c.kept)
			}
		}
	}
}

// TestUUIDOfACreate: PVE makes one only where smbios1 is not sent at all (API2/Qemu.pm, create_vm).
func TestUUIDOfACreate(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100", "OK"},
		{"", "POST", "/qemu", "vmid=101&smbios1=" + url.QueryEscape("manufacturer=ACME"), "OK"},
	})
	if got := fmt.Sprint(g.config("100")["smbios1"]); !strings.HasPrefix(got, "uuid=") {
		t.Errorf("smbios1 of a VM that was made without: %s", got)
	}
	if got := g.config("101")["smbios1"]; got != "manufacturer=ACME" {
		t.Errorf("smbios1 of a VM that was made with some: %v", got)
	}
}

// TestGuestRemembersItsShutdown: a request that PVE gives up on cannot be taken back; the guest goes off later, and
// stays off after a reboot, too (QemuServer.pm, vm_reboot and clear_reboot_request).
func TestGuestRemembersItsShutdown(t *testing.T) {
	for _, verb := range []string{"shutdown", "reboot"} {
		g := newRig(t, nil)
		g.steps([]step{{"", "POST", "/qemu/8000/status/start", "", "OK"}})
		g.s.Do(func(w *state.World) { w.Guests[8000].ShutdownSeconds = 30 })
		g.steps([]step{{"", "POST", "/qemu/8000/status/" + verb + "?timeout=5", "",
			"VM quit/powerdown failed - got timeout"}})
		running := func() (on bool) {
			g.s.Do(func(w *state.World) { on = w.Guests[8000].Running != nil })
			return on
		}
		if !running() {
			t.Errorf("%s: the guest is off before its time", verb)
		}
		g.pass(26 * time.Second)
		if running() {
			t.Errorf("%s: the guest has forgotten it", verb)
		}
		g.pass(5 * time.Minute)
		if running() {
			t.Errorf("%s: something has started it", verb)
		}
	}
}

// TestCloneUnderTheFirewallsLock: qmclone writes the target's configuration before it waits for the cluster's lock of
// the firewall file, outside of its clean-up (API2/Qemu.pm, clone_vm; pve-firewall Helpers.pm, clone_vmfw_conf).
func TestCloneUnderTheFirewallsLock(t *testing.T) {
	g := newRig(t, nil)
	g.s.HoldFirewall(100, time.Minute)
	g.steps([]step{{"", "POST", "/qemu/9000/clone", "newid=100",
		"cfs-lock 'firewall-vm-100' error: got lock request timeout"}})
	c := g.config("100")
	if c["lock"] != "clone" || len(g.names(100)) != 0 || c["name"] != nil {
		t.Errorf("left: %v and %v, want the temporary file with its lock", c, g.names(100))
	}
	g.steps([]step{{"", "DELETE", "/qemu/100", "", "VM is locked (clone)"}})
}

// TestRestore: a backup comes back under a free id or, by force, over a guest (API2/Qemu.pm, create_vm with archive).
func TestRestore(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100&name=first&description=mine&scsi0=local-zfs:1", "OK"},
		{"", "POST", "/vzdump", "vmid=100&storage=local", "OK"},
	})
	archive := ""
	for _, row := range g.do("root@pam!tf", "GET", "/nodes/pve1/storage/local/content", "content=backup").list() {
		archive = url.QueryEscape(fmt.Sprint(row["volid"]))
	}
	uuid := g.config("100")["smbios1"]
	g.steps([]step{
		{"", "PUT", "/qemu/100/config", "name=second&description=other", "OK"},
		{"", "POST", "/qemu", "vmid=100&archive=" + archive,
			"unable to restore VM 100 - VM 100 already exists on node 'pve1'"},
		{"", "POST", "/qemu", "vmid=8100&force=1&archive=" + archive, "unable to restore VM 8100 - unable to open file " +
			fmt.Sprintf("'/etc/pve/nodes/pve1/qemu-server/8100.conf.tmp.%d' - File exists", g.s.Forks)},
		{"", "POST", "/qemu/100/status/start", "", "OK"},
		{"", "POST", "/qemu", "vmid=100&force=1&archive=" + archive, "unable to restore VM 100 - vm is running"},
		{"", "POST", "/qemu/100/status/stop", "", "OK"},
		{"", "POST", "/qemu", "vmid=100&force=1&archive=" + archive, "OK"},
		{"", "POST", "/qemu", "vmid=101&unique=1&archive=" + archive, "OK"},
	})
	if c := g.config("100"); c["name"] != "first" || c["description"] != "mine" || c["smbios1"] != uuid ||
		c["lock"] != nil {
		t.Errorf("restored over itself: %v", c)
	}
	if c := g.config("101"); c["name"] != "first" || c["description"] != "mine" || c["smbios1"] == uuid {
		t.Errorf("restored to another id: %v", c)
	}
	backup, err := url.QueryUnescape(archive)
	if got := g.names(100); err != nil || !cmp.Equal(got, []string{backup, "local-zfs:vm-100-disk-0"}) {
		t.Errorf("volumes of the one that was there: %v, %v", got, err)
	}
}
