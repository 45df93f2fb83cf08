package fault

import (
	"errors"
	"fmt"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"
)

func TestContendedAnswer(t *testing.T) {
	for message, want := range map[string]bool{
		"VM is locked (backup)":  true,
		"VM is locked (migrate)": true,
		"VM is locked (create)":  true,
		"can't lock file '/var/lock/qemu-server/lock-305.conf' - got timeout":                           true,
		"unable to create VM 305 - can't lock file '/var/lock/qemu-server/lock-305.conf' - got timeout": true, // observed, as an answer
		"cfs-lock 'file-user_cfg' error: got lock request timeout":                                      true,
		"update pools failed: cfs-lock 'file-user_cfg' error: got lock request timeout":                 true,
		"create resource failed: cfs-lock 'domain-ha' error: got lock request timeout":                  true,
		"delete resource failed: cfs-lock 'domain-ha' error: got lock request timeout":                  true,
		"VM is locked (suspended)":                         false, // lasts until the guest is resumed
		"clone failed: can't lock file '/x' - got timeout": false,
		"unable to apply pending change scsi1 : cfs-lock 'storage-x' error: got lock request timeout": false,
		"can't lock file '/x' - got timeout\nmore":                                                    false,
		"can't lock file '/x' - can't open":                                                           false,
		"cfs-lock 'x' error: no quorum!":                                                              false,
		"'storage-x'-locked command timed out - aborting":                                             false,
		"unable to create VM 100 - volume is locked":                                                  false,
		"VM is locked (backup) and more":                                                              false,
		"can't lock file '":                                                                           false,
		"":                                                                                            false,
	} {
		err := fmt.Errorf("wrapped: %w", &Error{Op: "change VM 100", Status: 500, Kind: kindOfMessage(message), Message: message})
		if got := Contended(err); got != want {
			t.Errorf("%q: %v", message, got)
		}
	}
	locked := Error{Status: 500, Kind: Locked, Message: "VM is locked (backup)"}
	unanswered, explained := locked, locked
	unanswered.Status, explained.Params = 0, map[string]string{"net0": "hotplug problem"}
	for name, err := range map[string]error{"nil": nil, "another": errors.New("VM is locked (backup)"), "no answer": &unanswered, "errors{}": &explained} {
		if Contended(err) {
			t.Errorf("%s counts as proof", name)
		}
	}
}

func TestContendedTask(t *testing.T) {
	flock := func(path string) string { return "can't lock file '" + path + "' - got timeout" }
	own, storage := flock("/var/lock/qemu-server/lock-100.conf"), flock("/var/lock/pve-manager/pve-storage-local-lvm")
	replicated := flock("/var/lock/pve-manager/pve-migrate-100") // held while the guest is replicated
	migration := func(reason string) []string {
		return []string{"starting migration", "2026-01-01 00:00:00 ERROR: migration aborted (duration 00:00:10): " + reason}
	}
	tests := []struct {
		typ, exit string
		log       []string
		want      bool
	}{
		{"qmstart", "VM is locked (backup)", nil, true},
		{"qmstart", own, nil, true},
		{"qmpause", own, nil, true},
		{"qmsuspend", "VM is locked (backup)", nil, true},
		{"qmsuspend", own, nil, false},   // taken again when the memory is saved
		{"qmstart", storage, nil, false}, // from the middle: it allocates the cloud-init drive
		{"qmdestroy", own, nil, true},
		{"qmdestroy", "cfs-lock 'file-user_cfg' error: got lock request timeout", nil, false}, // after the volumes are gone
		{"resize", "VM is locked (snapshot)", nil, true},
		{"qmconfig", own, nil, true},
		{"qmconfig", storage, nil, false},
		{"qmshutdown", "VM is locked (suspended)", nil, false},
		{"qmclone", own, nil, true},
		{"qmclone", "clone failed: " + storage, nil, false},
		{"qmclone", "cfs-lock 'firewall-vm-101' error: got lock request timeout", nil, false}, // its configuration was written, and stays
		{"qmcreate", "unable to create VM 100 - " + own, nil, false},                          // its configuration was written and removed again
		{"imgdel", storage, nil, false},
		{"qmigrate", "migration aborted", migration("VM is locked (backup)"), true},
		{"qmigrate", "migration aborted", migration(own), true},
		{"qmigrate", replicated, nil, true},
		{"qmrollback", replicated, nil, true},
		{"qmrollback", flock("/var/lock/pve-manager/pve-migrate-101"), nil, false},
		{"qmdelsnapshot", "Failed to obtain guest migration lock - replication running?", nil, true},
		{"qmdestroy", replicated, nil, false},
		{"qmigrate", "migration aborted", migration(storage), false},
		{"qmigrate", "migration aborted", nil, false},
		{"qmigrate", "migration problems", migration("VM is locked (backup)"), false},
	}
	for _, tt := range tests {
		upid := task.UPID("UPID:pve1:00005366:00057C72:6B00502E:" + tt.typ + ":100:terraform@pve!prov:")
		if got := Contended(&TaskError{UPID: upid, ExitStatus: tt.exit, Log: tt.log, Kind: KindOfExit(tt.exit)}); got != tt.want {
			t.Errorf("%s: %q: %v", tt.typ, tt.exit, got)
		}
	}
}

func TestConfigLock(t *testing.T) {
	for want, err := range map[string]error{
		"backup":   &Error{Message: "VM is locked (backup)"},
		"snapshot": fmt.Errorf("wrapped: %w", &TaskError{ExitStatus: "VM is locked (snapshot)"}),
		"":         &Error{Message: "can't lock file '/x' - got timeout"},
	} {
		if got := ConfigLock(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// TestWhatTasksLeave: only what is known to have cleaned up, or to have made nothing, leaves nothing half-made.
func TestWhatTasksLeave(t *testing.T) {
	const userConfig = "can't add VM 100 to pool 'web': cfs-lock 'file-user_cfg' error: got lock request timeout"
	const noQuorum = "can't add VM 100 to pool 'web': cfs-lock 'file-user_cfg' error: no quorum!"
	const readOnly = "unable to open file '/etc/pve/nodes/pve1/qemu-server/100.conf.tmp.4711' - Permission denied"
	for _, c := range []struct {
		typ, exit   string
		clean, half bool
	}{
		{"qmcreate", "unable to create VM 100 - no space", true, false},
		{"qmcreate", "unexpected status", false, false},
		{"qmcreate", userConfig, false, false}, // its volumes stay
		{"qmcreate", noQuorum, false, true},    // the whole VM stays
		{"qmcreate", "unable to create VM 100 - " + readOnly, false, true},
		{"qmcreate", "unable to create VM 100 - cfs-lock 'storage-ceph' error: no quorum!", false, true},
		{"qmcreate", "unable to create VM 100 - can't open '/mnt/nfs/images/100' - Permission denied", true, false},
		{"qmclone", "clone failed: " + noQuorum, false, true},
		{"qmclone", "clone failed: " + readOnly, false, true},
		{"qmclone", "clone failed: Failed to move config to node 'pve2' - rename failed: Permission denied", false, true},
		{"qmclone", "clone failed: " + userConfig, false, false}, // on another node its configuration stays
		{"qmrestore", userConfig, false, true},
		{"qmdestroy", "access permissions cleanup for VM 100 failed: cfs-lock 'file-user_cfg' error: got lock request timeout", false, true},
		{"qmdestroy", "delete resource failed: cfs-lock 'domain-ha' error: no quorum!", false, true},
		{"qmdestroy", readOnly, false, true},
		{"qmdestroy", "VM 100 is running - destroy failed", true, false},
		{"qmdestroy", "VM is locked (backup)", true, false},
		{"qmdestroy", "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout", true, false},
		{"qmdestroy", "base volume 'local-zfs:base-100-disk-0' is still in use by linked cloned", true, false},
		{"qmclone", "OK", true, false},
		{"qmclone", "WARNINGS: 1", true, false},
		{"qmclone", "clone failed: no space", true, false},
		{"qmclone", "VM is locked (backup)", true, false},
		{"qmclone", "can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout", true, false},
		{"qmclone", "cfs-lock 'firewall-vm-101' error: got lock request timeout", false, true},
		{"qmclone", "cfs-lock 'firewall-vm-101' error: no quorum!", false, true},
		{"qmclone", "something new", false, false},
	} {
		e := &TaskError{UPID: task.UPID("UPID:pve1:00005366:00057C72:6B00502E:" + c.typ + ":100:terraform@pve!prov:"), ExitStatus: c.exit}
		if e.CleansUp() != c.clean || e.LeavesHalf() != c.half {
			t.Errorf("%s %q: cleans up %t, leaves half %t", c.typ, c.exit, e.CleansUp(), e.LeavesHalf())
		}
		if got := e.LeavesVolumes(); got != (c.typ == "qmcreate" && c.exit == userConfig) {
			t.Errorf("%s %q: leaves volumes %t", c.typ, c.exit, got)
		}
	}
}
