package shell

import (
	"slices"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/printed"
)

// hostile are names that third parties can choose, or that a broken server may send.
func hostile() []string {
	return []string{"local:777/vm-777-x;id>${PWD}PWNED;#.raw", "local:$(id)", "local:`id`", "local:'a'", `local:"a"`, "local:a b",
		"local:a\nid", "local:a\tid", `local:a\`, "local:a&id", "local:a|id", "local:a>b", "local:*", "local:[a]", "local:{a,b}", "~root",
		"local:ünïcode", "local:a\u202eb", "local:a\x1b[2J", "local:a\xff", "local:a\x00", "-rf", "--help", "=id", "", "!!", "#a", "a!'b"}
}

// good are names of PVE's own kind.
func good() []string {
	return []string{"local:777/vm-777-disk-0.raw", "local-zfs:base-100-disk-0/vm-101-disk-0", "auditor@pve", "pve-1", "/vms/100",
		"UPID:pve1:00001:00002:0003:qmcreate:100:terraform@pve!tf:", "local:100/vm-100-disk-0.qcow2,size=32G", "terraform@pve!tf",
		"a_b.c+d@e=f"}
}

// commands are all shapes of commands around a name, with the words that they are to be.
func commands(name string) map[string][][]string {
	conf := "/etc/pve/nodes/" + name + "/qemu-server/100.conf"
	return map[string][][]string{
		Command("pveum acl delete {} --users {}", name, name): {{"pveum", "acl", "delete", name, "--users", name}},
		VM("qm set {vmid} --{} {}", 100, "scsi0", name):       {{"qm", "set", "100", "--scsi0", name}},
		Free(name): {{"pvesm", "free", name}},
		FreeUnused(name): {{"grep", "-rF", "--", name, "/etc/pve/nodes"}, {"[", "$?", "=", "1", "]"},
			{"pvesm", "free", name}},
		DropSnapshot("pve1", 100, name, name): {
			{"grep", "-xF", "--", "[" + name + "]", "/etc/pve/nodes/pve1/qemu-server/100.conf"}, {"[", "$?", "=", "1", "]"},
			{"perl", "-MPVE::Storage", "-e", "PVE::Storage::volume_snapshot_delete(PVE::Storage::config(), @ARGV)", name, name}},
		And(IfMarked(name, "pve1", 100), VM("qm unlock {vmid}", 100)): {{"grep", "-qiF", "--", name,
			"/etc/pve/nodes/pve1/qemu-server/100.conf"}, {"qm", "unlock", "100"}},
		IfMarked("x", name, 100): {{"grep", "-qiF", "--", "x", conf}},
	}
}

// TestLawCommandsHaveExactWords: a shell makes exactly the intended words of each printed command, or none is printed.
func TestLawCommandsHaveExactWords(t *testing.T) {
	for _, name := range good() {
		for line, want := range commands(name) {
			got, err := printed.Words(line)
			if err != nil || !slices.EqualFunc(got, want, slices.Equal[[]string]) {
				t.Errorf("%s: the shell makes %q of it, want %q (%v)", line, got, want, err)
			}
		}
	}
	for _, name := range hostile() {
		for line := range commands(name) {
			if line != "" {
				t.Errorf("%q: the command %s is printed", name, line)
			}
		}
		if said := TaskStatus(name, "pve1"); len(printed.Commands(said)) > 0 {
			t.Errorf("%q: the command %s is printed", name, said)
		}
	}
}

// TestLawCommandsWithTokensAreQuoted: bash looks for what follows "!" in its history, so such a word is in single quotes.
func TestLawCommandsWithTokensAreQuoted(t *testing.T) {
	if got := Command("pveum acl delete {} --tokens {}", "/vms/100", "a@pve!b"); got != "pveum acl delete /vms/100 --tokens 'a@pve!b'" {
		t.Errorf("got %s", got)
	}
	if got := TaskStatus("UPID:a", "pve1"); got != "`pvenode task status UPID:a` on node pve1" {
		t.Errorf("got %s", got)
	}
}
