package destroy

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// TestDecide: the next act of a removal, by what the pass has seen, what is remembered and what is allowed.
func TestDecide(t *testing.T) {
	ours := func(config map[string]string) facts {
		return facts{view: view{verdict: verdict{owner: guest.Ours}, node: "pve1", config: pve.GuestConfig{Values: config}}}
	}
	with := func(f facts, change func(*facts)) facts { change(&f); return f }
	gone := func(left ...string) facts { return facts{left: left, lastDestroy: "UPID:x"} }
	off, explained := memory{off: true}, memory{deleted: deletion{explained: "UPID:x"}}
	exhausted := explained
	exhausted.tries.reclaim = maxReclaims
	tried := memory{}
	tried.tries.alone = maxAlone
	running := &pve.GuestStatus{Status: "running"}
	underHA := &pve.GuestStatus{Status: "stopped", HAManaged: true}
	committed := policy{committed: true}
	lock := func(lock string) facts { return ours(map[string]string{"lock": lock, "smbios1": "uuid=a"}) }
	protected := ours(map[string]string{"protection": "1"})
	const volume = "local-zfs:vm-100-disk-0"

	for _, c := range []struct {
		name string
		f    facts
		m    memory
		p    policy
		want string
	}{
		{"a third party has the VMID", facts{view: view{verdict: verdict{owner: guest.ThirdParty}}, left: []string{volume}}, off, policy{},
			"leave the VMID to a third party"},
		{"nothing is there", gone(), memory{}, policy{}, "end"},
		{"nothing is there, exhausted", gone(), exhausted, policy{}, "end"},
		{"volumes outlived the VM", gone(volume), memory{}, policy{}, "read why volumes outlived the VM"},
		{"they did, explained", gone(volume), explained, policy{}, "take the VMID again"},
		{"they did, and there was no destroy", facts{left: []string{volume}}, memory{}, policy{}, "take the VMID again"},
		{"they did, and their VMID is free since", facts{left: []string{volume}}, memory{}, policy{alone: true},
			"free volumes of a free VMID"},
		{"they did, and are not freed by themselves", facts{left: []string{volume}}, tried, policy{alone: true}, "take the VMID again"},
		{"they did, for ever", gone(volume), exhausted, policy{}, "give up volumes that outlived the VM"},

		{"nothing speaks against it", ours(nil), off, policy{}, "destroy the VM"},
		{"adopted volumes", with(ours(nil), func(f *facts) { f.adopted = []string{volume} }), memory{ha: haEntry{entry: true}}, policy{},
			"check adopted volumes"},
		{"under HA by our create", ours(nil), memory{ha: haEntry{entry: true}}, policy{}, "take the VM out of HA"},
		{"its power is not known", ours(nil), memory{}, policy{}, "ask whether the guest runs"},
		{"under HA of others", with(ours(nil), func(f *facts) { f.power = underHA }), memory{}, policy{}, "refuse a VM under HA of others"},
		{"under HA, to be purged", with(ours(nil), func(f *facts) { f.power = underHA }), memory{ha: haEntry{purge: true}}, policy{},
			"destroy the VM"},
		{"under HA, committed", with(ours(nil), func(f *facts) { f.power = underHA }), memory{}, committed, "destroy the VM"},
		{"runs", with(ours(nil), func(f *facts) { f.power = running }), memory{}, policy{}, "stop the guest"},
		{"runs again", with(ours(nil), func(f *facts) { f.power = running }), memory{}, committed, "refuse a VM that runs again"},
		{"runs again, by force", with(ours(nil), func(f *facts) { f.power = running }), memory{}, policy{committed: true, force: true},
			"stop the guest"},

		{"protected by a third party", with(protected, func(f *facts) { f.spared, f.power = true, running }), memory{ha: haEntry{entry: true}},
			policy{}, "leave a VM that a third party protects"},
		{"protected", protected, off, policy{}, "switch off the protection"},
		{"protected, committed", protected, off, committed, "refuse a protected VM"},
		{"protected, a holder", protected, off, policy{committed: true, holder: true}, "lift the protection of a holder"},
		{"locked by a dead create", lock("create"), off, policy{}, "unlock"},
		{"locked by a dead clone, protected", with(lock("clone"), func(f *facts) { f.config.Values["protection"] = "1" }), off, policy{}, "unlock"},
		{"locked by a backup", lock("backup"), off, policy{}, "wait for a lock of others"},
		{"locked, committed", lock("backup"), off, committed, "wait for the lock of a committed VM"},
		{"locked, committed and half destroyed", ours(map[string]string{"lock": "destroyed"}), off, committed, "unlock"},
		{"locked and protected, committed", with(lock("backup"), func(f *facts) { f.config.Values["protection"] = "1" }), off, committed,
			"refuse a protected VM"},
		{"suspended to disk", lock(suspended), off, committed, "destroy the VM"},
		{"volumes that it does not name", with(ours(nil), func(f *facts) { f.left = []string{volume} }), off, policy{},
			"attach volumes that the VM does not name"},
		{"they were attached", with(ours(nil), func(f *facts) { f.left, f.attached = []string{volume}, true }), off, policy{}, "destroy the VM"},
		{"they wait until it is unlocked", with(lock("create"), func(f *facts) { f.left = []string{volume} }), off, policy{}, "unlock"},
	} {
		if got := decide(c.f, c.m, c.p); got.name != c.want {
			t.Errorf("%s: %q, want %q", c.name, got.name, c.want)
		}
	}
}

// TestRules: each row says why it stands where it stands, and the last applies to whatever the others leave.
func TestRules(t *testing.T) {
	all := rules()
	names := map[string]bool{}
	for _, r := range all {
		if r.why == "" || names[r.name] {
			t.Errorf("%q: why %q, or twice", r.name, r.why)
		}
		names[r.name] = true
	}
	if last := all[len(all)-1]; !last.when(facts{}, memory{}, policy{}) {
		t.Errorf("%q does not always apply", last.name)
	}
}
