package sshd

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/server"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type bench struct {
	t       *testing.T
	world   *state.World
	cluster *server.Server
	server  *Server
	address string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	w := state.Default([]string{"pve1", "pve2"})
	w.Clock = clock.NewVirtual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	c := server.New(engine.Config{World: w, Schema: schema.Load()}, nil)
	s, err := New(c.Engine)
	if err != nil {
		t.Fatal(err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Add(1)
	go func() { defer serving.Done(); _ = s.Serve(l, "pve1") }()
	t.Cleanup(func() {
		_ = l.Close()
		s.Close()
		c.Close()
		serving.Wait()
	})
	return &bench{t, w, c, s, l.Addr().String()}
}

func (b *bench) client() *ssh.Client {
	b.t.Helper()
	key, err := ssh.ParsePrivateKey(b.server.PrivateKeyPEM())
	if err != nil {
		b.t.Fatal(err)
	}
	c, err := ssh.Dial("tcp", b.address, &ssh.ClientConfig{User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback: ssh.FixedHostKey(b.server.host.PublicKey())})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

// run gives the exit status, -1 if the connection was lost.
func (b *bench) run(command string) (out, errs string, status int) {
	b.t.Helper()
	session, err := b.client().NewSession()
	if err != nil {
		b.t.Fatal(err)
	}
	var o, e bytes.Buffer
	session.Stdout, session.Stderr = &o, &e
	err = session.Run(command)
	var exit *ssh.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		status = exit.ExitStatus()
	default:
		status = -1
	}
	b.cluster.Do(func(w *state.World) {
		if err := w.Check(); err != nil {
			b.t.Errorf("%s: %v", command, err)
		}
	})
	return o.String(), e.String(), status
}

func (b *bench) put(node, storage, name string, vmid int) {
	b.cluster.Do(func(w *state.World) {
		w.Put(&state.Volume{Storage: storage, Node: node, Name: name, Content: "images", VMID: vmid, Format: "raw",
			Size: 1 << 30})
	})
}

func TestCommands(t *testing.T) {
	b := newBench(t)
	b.put("pve1", "local-zfs", "vm-100-cloudinit", 100)
	b.put("pve1", "local-zfs", "vm-100-disk-0", 100)
	b.put("pve2", "local-zfs", "vm-100-disk-0", 100) // of the same name, on another node
	b.put("pve1", "local-lvm", "vm-100-disk-0", 100)
	b.cluster.Do(func(w *state.World) {
		w.Guests[100] = &state.Guest{VMID: 100, Type: "qemu", Node: "pve1",
			Config: map[string]string{"scsi0": "local-lvm:vm-100-disk-0,size=1G"}}
		w.Guests[100].SetLock("create", "state")
		w.Nodes["pve1"].Files["/root/image.raw"] = strings.Repeat("x", 4096)
	})
	for _, row := range []struct {
		command, out, errs string
		status             int
	}{
		{"qm status 100", "status: stopped\n", "", 0},
		{"qm config 100", "lock: create\nscsi0: local-lvm:vm-100-disk-0,size=1G\n", "", 0},
		{"qm destroy 100", "", "VM is locked (create)\n", 255},
		{"'qm' 'unlock' '100'", "", "", 0},
		{"qm unlock 999", "", "Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist\n", 255},
		{"qm unlock", "", "400 not enough arguments\nqm unlock <vmid>\n", 255},
		{"qm disk import 100 /root/image.raw local2 --format qcow2",
			"importing disk '/root/image.raw' to VM 100 ...\nunused0: successfully imported disk " +
				"'local2:100/vm-100-disk-0.qcow2'\n", "", 0},
		{"qm importdisk 100 /root/image.raw local-lvm -format qcow2",
			"importing disk '/root/image.raw' to VM 100 ...\nunused1: successfully imported disk 'local-lvm:vm-100-disk-1'\n",
			"format 'qcow2' is not supported by the target storage - using 'raw' instead\n", 0},
		{"qm importdisk 100 /root/none.raw local2", "", "/root/none.raw: non-existent or non-regular file\n", 255},
		{"zfs list -H -o name -t filesystem,volume -d 1 rpool/data",
			"rpool/data\nrpool/data/base-9000-disk-0\nrpool/data/subvol-8100-disk-0\nrpool/data/vm-100-cloudinit\nrpool/data/vm-100-disk-0\nrpool/data/vm-9000-cloudinit\n", "", 0},
		{"zfs destroy rpool/data/vm-100-cloudinit", "", "", 0},
		{"zfs destroy rpool/data/vm-100-cloudinit", "", "cannot open 'rpool/data/vm-100-cloudinit': dataset does not exist\n",
			1},
		{"zfs destroy rpool/data/base-9000-disk-0", "",
			"cannot destroy 'rpool/data/base-9000-disk-0': volume has children\nuse '-r' to destroy the following " +
				"datasets:\nrpool/data/base-9000-disk-0@__base__\n", 1},
		{"/usr/bin/uname -n", "pve1\n", "", 0},
		{"uname -a", "", "uname -a: not simulated\n", 1},
		{"pvesm free local-zfs:vm-100-disk-0", "Removed volume 'local-zfs:vm-100-disk-0'\n", "", 0},
		{"pvesm path local2:100/vm-100-disk-0.qcow2", "/var/lib/vz2/images/100/vm-100-disk-0.qcow2\n", "", 0},
		{"pvesm free local-lvm:vm-100-disk-1", "  Logical volume \"vm-100-disk-1\" successfully removed.\nRemoved volume 'local-lvm:vm-100-disk-1'\n", "", 0},
		{"pvesm list local-lvm --vmid 100",
			"Volid                   Format  Type              Size VMID\nlocal-lvm:vm-100-disk-0 raw     images      " +
				"1073741824 100\n", "", 0},
		{"qm unlink 100", "", "400 not enough arguments\nqm unlink <vmid> --idlist <string> [OPTIONS]\n", 255},
		{"qm set 100 --description gone && qm unlink 100 --idlist description,unused0 && qm config 100",
			"scsi0: local-lvm:vm-100-disk-0,size=1G\nunused1: local-lvm:vm-100-disk-1\n", "", 0},
		{"qm destroy 100 --purge && qm status 100",
			"  Logical volume \"vm-100-disk-0\" successfully removed.\npurging VM 100 from related configurations..\n",
			"Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist\n", 255},
		{"reboot", "", "bash: line 1: reboot: command not found\n", 127},
	} {
		out, errs, status := b.run(row.command)
		if out != row.out || errs != row.errs || status != row.status {
			t.Errorf("%s: %d\nout  %q\nwant %q\nerr  %q\nwant %q", row.command, status, out, row.out, errs, row.errs)
		}
	}
	for _, v := range b.world.Volumes {
		if v.VMID == 100 && v.Node != "pve2" {
			t.Errorf("left: %s on %s", v.Volid(), v.Node)
		}
	}
	if b.world.Volume("pve2", "local-zfs:vm-100-disk-0") == nil {
		t.Error("a command on pve1 has freed a volume of pve2")
	}
}

func TestFaultsAndOperations(t *testing.T) {
	b := newBench(t)
	b.put("pve1", "local-zfs", "vm-100-disk-0", 100)
	rules := []fault.Rule{
		{Match: fault.Match{Method: "SSH", Path: "zfs destroy"}, Phase: fault.Before, Reason: "no"},
		{Match: fault.Match{Method: "SSH", Path: "zfs destroy", VMID: 100, Nth: 2}, Phase: fault.After},
	}
	if err := b.cluster.Faults().Put(rules); err != nil {
		t.Fatal(err)
	}
	const command = "zfs destroy rpool/data/vm-100-disk-0"
	if _, errs, status := b.run(command); status != 1 || errs != "no\n" {
		t.Errorf("before: %d %q", status, errs)
	}
	if _, _, status := b.run(command); status != -1 {
		t.Errorf("after: %d", status)
	}
	if _, errs, status := b.run(command); status != 1 || !strings.Contains(errs, "dataset does not exist") {
		t.Errorf("it was done: %d %q", status, errs)
	}
	ops := b.cluster.Ops()
	if len(ops) != 3 || ops[0].Method != "SSH" || ops[0].Path != "zfs destroy" || ops[0].VMID != 100 ||
		ops[0].Status != 1 || ops[0].Node != "pve1" {
		t.Errorf("operations: %+v", ops)
	}
	if b.cluster.Faults().Effective() != 2 {
		t.Error(b.cluster.Faults().Effective())
	}
}

func TestOfflineNodeDropsTheConnection(t *testing.T) {
	b := newBench(t)
	b.cluster.Do(func(w *state.World) { w.Nodes["pve1"].Online = false })
	if _, _, status := b.run("qm list"); status != -1 {
		t.Error(status)
	}
}

// TestConnectionIsCutBeforeACommand: without an answer the command had no effect.
func TestConnectionIsCutBeforeACommand(t *testing.T) {
	b := newBench(t)
	b.put("pve1", "local-zfs", "vm-100-disk-0", 100)
	rules := []fault.Rule{{Match: fault.Match{Method: "SSH", Path: "pvesm free", Nth: 2}, Phase: fault.Before, Status: 596}}
	if err := b.cluster.Faults().Put(rules); err != nil {
		t.Fatal(err)
	}
	if _, _, status := b.run("pvesm free local-zfs:vm-999-disk-0"); status != 255 && status != 0 {
		t.Errorf("the first: %d", status)
	}
	if _, _, status := b.run("pvesm free local-zfs:vm-100-disk-0"); status != -1 {
		t.Errorf("the second: %d", status)
	}
	if out, _, status := b.run("pvesm list local-zfs --vmid 100"); status != 0 || !strings.Contains(out, "vm-100-disk-0") {
		t.Errorf("it had an effect: %d %q", status, out)
	}
}

// TestLoginShell: the login shell prints before a command, and sh is another shell that prints and becomes a command.
func TestLoginShell(t *testing.T) {
	b := newBench(t)
	b.cluster.Do(func(w *state.World) { w.Nodes["pve1"].LoginText = "hello" })
	for _, row := range []struct {
		command, out, errs string
		status             int
	}{
		{"qm status 8000", "hellostatus: stopped\n", "", 0},
		{`sh -c 'echo; echo a b; echo c >&2; exec "$@"' sh qm status 8000`, "hello\na b\nstatus: stopped\n", "c\n", 0},
		{`sh -c 'exec "$@"' sh pvesm path 'local:snippets/it'\''s'`, "hello/var/lib/vz/snippets/it's\n", "", 0},
		{`sh -c 'exec "$@"' sh reboot`, "hello", "bash: line 1: reboot: command not found\n", 127},
	} {
		out, errs, status := b.run(row.command)
		if out != row.out || errs != row.errs || status != row.status {
			t.Errorf("%s: %d\nout  %q\nwant %q\nerr  %q\nwant %q", row.command, status, out, row.out, errs, row.errs)
		}
	}
	if _, err := sftp.NewClient(b.client()); err == nil {
		t.Error("text before its first packet does not disturb SFTP")
	}
}

func TestForeignKeysStayOut(t *testing.T) {
	b := newBench(t)
	key, _ := ssh.ParsePrivateKey(newBench(t).server.PrivateKeyPEM())
	for _, user := range []string{"root", "admin"} {
		_, err := ssh.Dial("tcp", b.address, &ssh.ClientConfig{User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)},
			HostKeyCallback: ssh.InsecureIgnoreHostKey()})
		if err == nil {
			t.Errorf("%s was let in with a foreign key", user)
		}
	}
	known := string(b.server.KnownHosts(b.address))
	for _, name := range []string{"[127.0.0.1]:", "pve1,", "192.0.2.12 "} {
		if !strings.Contains(known, name) {
			t.Errorf("known_hosts lacks %q: %s", name, known)
		}
	}
}

// TestUnameHasTheHostname: the name of the kernel may have a domain, which PVE's name of the node has not.
func TestUnameHasTheHostname(t *testing.T) {
	b := newBench(t)
	b.cluster.Do(func(w *state.World) { w.Nodes["pve1"].Hostname = "pve1.example.org" })
	if out, errs, status := b.run("x=$(uname -n); echo ${x%%.*}/$x"); out != "pve1/pve1.example.org\n" || status != 0 {
		t.Errorf("%q, %q, %d", out, errs, status)
	}
}

func TestNodeAt(t *testing.T) {
	b := newBench(t)
	for local, want := range map[string]string{
		"pve1:22": "pve1", "pve2": "pve2", "192.0.2.12:22": "pve2", "pve2.pvesim.test:22": "pve2",
		"127.0.0.2:22": "", "pve3:22": "", "pve": "",
	} {
		if got := b.server.nodeAt(local); got != want {
			t.Errorf("%s: %q", local, got)
		}
	}
}
