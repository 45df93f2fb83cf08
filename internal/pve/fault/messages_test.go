package fault

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// Texts of a live 8.4.21 unless marked otherwise.
func TestKindOfMessage(t *testing.T) {
	for message, want := range map[string]Kind{
		"Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist":                                             NotFound,
		"unable to find configuration file for VM 999 on node 'pve1'":                                                     NotFound,
		"zfs error: cannot open 'rpool/data/vm-101-disk-9': dataset does not exist":                                       NotFound,
		"unable to create VM 101 - volume 'local:iso/nope.iso' does not exist":                                            NotFound,
		"unable to create VM 210 - failed to stat '/var/lib/vz/import/missing.qcow2'":                                     NotFound,
		"storage 'nostore' does not exist":                                                                                NotFound,
		"pool 'nopool' does not exist":                                                                                    NotFound,
		"no such resource 'vm:303'":                                                                                       NotFound,
		"snapshot 'nope' does not exist":                                                                                  NotFound,
		"unable to create VM 100 - VM 100 already exists on node 'pve1'":                                                  Exists,
		"unable to create VM 100 - CT 100 already exists on node 'pve1'":                                                  Exists, // source
		"unable to create VM 301: config file already exists":                                                             Exists,
		"close (rename) atomic file '/etc/pve/nodes/p/qemu-server/1.conf' failed: File exists":                            Exists, // source
		"create pool failed: pool 'p1' already exists":                                                                    Exists,
		"snapshot feature is not available":                                                                               Unsupported, // source
		"snapshot name 's1' already used":                                                                                 Exists,
		"zfs error: cannot create snapshot 'rpool/data/vm-100-disk-0@s1': dataset already exists":                         Exists,
		"zfs error: cannot create 'rpool/data/vm-200-disk-0': dataset already exists":                                     Leftover,
		"unable to create VM 200 - zfs error: cannot create 'rpool/data/vm-200-cloudinit': dataset already exists":        Leftover,
		"clone failed: zfs error: cannot create 'rpool/data/vm-302-cloudinit': dataset already exists":                    Leftover,
		"unable to create VM 200 - disk image '/var/lib/vz2/images/200/vm-200-cloudinit.qcow2' already exists":            Leftover,
		`lvcreate 'pve/vm-100-cloudinit' error:   Logical Volume "vm-100-cloudinit" already exists in volume group "pve"`: Leftover, // source
		"rbd create 'vm-100-cloudinit' error: rbd: create error: (17) File exists":                                        Leftover, // source
		"VM is locked (clone)": Locked,
		"can't lock file '/var/lock/qemu-server/lock-305.conf' - got timeout":                                             Locked,
		"unable to create VM 305 - can't lock file '/var/lock/qemu-server/lock-305.conf' - got timeout":                   Locked,
		"cfs-lock 'storage-ceph' error: got lock request timeout":                                                         Locked,    // source
		"cfs-lock 'storage-ceph' error: no quorum!":                                                                       Unhealthy, // source
		"'storage-ceph'-locked command timed out - aborting":                                                              Busy,      // source
		"VM 303 is running - destroy failed":                                                                              Busy,
		"VM 303 already running":                                                                                          Busy,
		"you can't convert a VM to template if VM is running":                                                             Busy,
		"zfs error: cannot destroy 'rpool/data/vm-303-disk-0': dataset is busy":                                           Busy,
		"base volume 'local-zfs:base-100-disk-0' is still in use by linked cloned":                                        Busy,
		"delete pool failed: pool 'p1' is not empty (contains VM 303)":                                                    Busy,
		"VM quit/powerdown failed - got timeout":                                                                          Busy,
		"only root can set 'args' config":                                                                                 Denied,
		"Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 581.":                     Denied,
		"update pools failed: 403 Permission check failed (/vms/810, Permissions.Modify|VM.Allocate)":                     Denied,
		"can't remove VM 901 - protection mode enabled":                                                                   Denied,
		"checksum mismatch (file change by other user?)":                                                                  DigestMismatch,
		"checksum missmatch (file change by other user?)":                                                                 DigestMismatch, // source, v7
		"checksum mismatch: got 'a' != expect 'b', aborting":                                                              Unknown,        // source, a download
		"hostname lookup 'nonode' failed - failed to get address info for: nonode: Name or service not known":             Unhealthy,
		"no such cluster node 'nonode'":                                                                                   Unhealthy,
		"unable to create VM 101 - storage 'disabled1' is disabled":                                                       Unhealthy,
		"storage 'nfs' is not available on node 'pve2'":                                                                   Unhealthy, // source
		"storage 'nfs' is not online":                                                                                     Unhealthy, // source
		"cluster not ready - no quorum?":                                                                                  Unhealthy, // source
		"timeout: no zvol device link for 'vm-100-disk-9' found after 10 sec.":                                            Unhealthy,
		"QEMU guest agent is not running":                                                                                 Unhealthy,
		"VM 320 is not running":                                                                                           Unhealthy,
		"VM 303 not running":                                                                                              Unhealthy,
		"No QEMU guest agent configured":                                                                                  Unsupported,
		"Linked clone feature is not supported for 'local-zfs:vm-100-disk-0' (scsi0)":                                     Unsupported,
		"lvcreate 'pve/vm-100-disk-0' error: not enough free space (1.00 GiB < 5.00 GiB)":                                 Capacity, // source
		"unable to get any free VMID in range [100, 101]":                                                                 Capacity, // source
		"no options specified":                                                                                            Invalid,
		"shrinking disks is not supported":                                                                                Invalid,
		"disk 'scsi9' does not exist":                                                                                     Invalid,
		"unable to parse zfs volume name 'foo/bar/baz'":                                                                   Invalid,
		"illegal name 'vm-201-disk-0' - should be 'vm-200-*'":                                                             Invalid,
		"you can't start a vm if it's a template":                                                                         Invalid,
		"unable to create VM 101 - unsupported format 'qcow2' at /usr/share/perl5/PVE/Storage/ZFSPoolPlugin.pm line 240.": Invalid,
		"got no worker upid - start worker failed":                                                                        Ambiguous, // source
		"start failed: QEMU exited with code 1":                                                                           Unknown,
		"received interrupt":                                                                                              Unknown,
		"":                                                                                                                Unknown,
	} {
		if got := kindOfMessage(message); got != want {
			t.Errorf("%q is %s, want %s", message, got, want)
		}
	}
}

func TestKindOfParams(t *testing.T) {
	for _, tt := range []struct {
		params map[string]string
		want   Kind
	}{
		{map[string]string{"vmid": "VM 100 already exists"}, Exists},
		{map[string]string{"skiplock": "Only root may use this option."}, Denied},
		{map[string]string{"upid": "no such task"}, NotFound},
		{map[string]string{"storage": "No such storage."}, NotFound},
		{map[string]string{"upid": "unable to parse worker upid"}, Invalid},
		{map[string]string{"net0": "hotplug problem - interface vmbr9 does not exist"}, Invalid},
		{map[string]string{"scsi0": "unable to apply pending change scsi0 : VM is locked (backup)"}, Invalid},
		{map[string]string{"scsi0": "hotplug problem - can't lock file '/x' - got timeout"}, Invalid},
		{map[string]string{"scsi0": "hotplug problem - volume 'local:iso/x' does not exist"}, Invalid},
		{nil, Invalid},
	} {
		if got := KindOfAnswer(true, 400, "Parameter verification failed.", tt.params); got != tt.want {
			t.Errorf("%v is %s, want %s", tt.params, got, tt.want)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"a*c", "xabcx", true},
		{"a*c", "xacx", true},
		{"a*c", "xca", false},
		{"VM # x", "VM 100 x", true},
		{"VM # x", "VM  x", false},
		{"VM # x", "VM a x", false},
		{"VM # x", "VM 1 y VM 2 x", true},
		{"a'*' b '*' c", "a'1' b '2' c", true},
		{"", "anything", true},
	} {
		if got := matches(tt.pattern, tt.text); got != tt.want {
			t.Errorf("%q in %q: %v", tt.pattern, tt.text, got)
		}
	}
}

func TestKindOf(t *testing.T) {
	if KindOf(nil) != Unknown || IsKind(nil, Unknown) {
		t.Error("nil has no kind")
	}
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, errors.New("x")} {
		if KindOf(err) != Unknown {
			t.Errorf("%v is %s", err, KindOf(err))
		}
	}
	deep := fmt.Errorf("step 3: %w", errors.Join(errors.New("x"), &TaskError{Kind: Leftover}))
	if KindOf(deep) != Leftover || !IsKind(fmt.Errorf("a: %w", &Error{Kind: Exists}), Exists) {
		t.Error("a wrapped error has the kind of its cause")
	}
	names := map[string]bool{}
	for k := Unknown; k <= DigestMismatch; k++ {
		names[k.String()] = true
	}
	if len(names) != int(DigestMismatch)+1 || Kind(99).String() != "Unknown" || Kind(-1).String() != "Unknown" {
		t.Errorf("names %v", names)
	}
}

func TestErrorText(t *testing.T) {
	err := &Error{Op: "create VM 100 on node pve1", Message: "Parameter verification failed.", Params: map[string]string{
		"scsihw": "value 'foo' does not have a value in the enumeration", "memory": "type check failed",
	}}
	want := "create VM 100 on node pve1: Parameter verification failed. memory: type check failed; scsihw: value 'foo' does not have a value in the enumeration"
	if err.Error() != want {
		t.Errorf("got %q", err.Error())
	}
}
