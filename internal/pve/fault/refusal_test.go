package fault

import "testing"

// TestRefusedAtHotplug tells what PVE says of single options from an end in the middle of a change.
func TestRefusedAtHotplug(t *testing.T) {
	task := func(exit string) error { return &TaskError{ExitStatus: exit} }
	for name, tt := range map[string]struct {
		err                    error
		refused, scsi1, midway bool
	}{
		"an answer":                     {&Error{Status: 400, Kind: Invalid, Params: map[string]string{"scsi1": "hotplug problem - no"}}, true, true, false},
		"of another":                    {&Error{Status: 400, Kind: Invalid, Params: map[string]string{"net0": "hotplug problem - no"}}, true, false, false},
		"a plain refusal":               {&Error{Status: 400, Kind: Invalid}, false, false, false},
		"a task":                        {task("scsi1: hotplug problem - no"), true, true, false},
		"another's task":                {task("scsi11: hotplug problem - no"), true, false, false},
		"a task that died":              {task("lvcreate failed"), false, false, true},
		"an answer that died":           {&Error{Status: 500, Kind: Unknown}, false, false, true},
		"a lock":                        {&Error{Status: 500, Kind: Locked}, false, false, false},
		"an older digest":               {&Error{Status: 500, Kind: DigestMismatch}, false, false, false},
		"a task with an older digest":   {task("checksum mismatch (file change by other user?)"), false, false, false},
		"a task that finds a lock":      {task("VM is locked (suspended)"), false, false, false},
		"a task without the lock":       {task("can't lock file '/var/lock/qemu-server/lock-400.conf' - got timeout"), false, false, false},
		"a task without the VM":         {task("Configuration file 'nodes/pve1/qemu-server/400.conf' does not exist"), false, false, false},
		"a storage's lock, midway":      {task("can't lock file '/var/lock/pve-manager/pve-storage-local-lvm' - got timeout"), false, false, true},
		"a storage's removal, midway":   {task("storage 'local-lvm' does not exist"), false, false, true},
		"a worker killed, maybe midway": {task(KilledStatus), false, false, true},
		"a proxy":                       {&Error{Status: 596, Kind: Ambiguous}, false, false, false},
	} {
		if RefusedAtHotplug(tt.err) != tt.refused || Refuses(tt.err, "scsi1") != tt.scsi1 || DiedMidway(tt.err) != tt.midway {
			t.Errorf("%s: refused %v, of scsi1 %v, in the middle %v", name, RefusedAtHotplug(tt.err), Refuses(tt.err, "scsi1"), DiedMidway(tt.err))
		}
	}
}
