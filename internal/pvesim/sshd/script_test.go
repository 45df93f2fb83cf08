package sshd

import (
	"io"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestScripts: a shell reads what a client sends, and knows the node's commands and files only.
func TestScripts(t *testing.T) {
	b := newBench(t)
	b.cluster.Do(func(w *state.World) { w.Nodes["pve1"].Files["/root/list"] = "a:1\nb:2\nab:3\n" })
	const notSimulated = "shell syntax that is not simulated\n"
	for _, row := range []struct {
		command, out, errs string
		status             int
	}{
		{`x=8000; qm status $x`, "status: stopped\n", "", 0},
		{`qm status "$(echo 8000)" | cut -d : -f 2`, " stopped\n", "", 0},
		{`f() { if [ "$1" = 0 ]; then shift; "$@"; else return 3; fi; }; f 0 qm status 8000; f 1; echo $?`, "status: stopped\n3\n", "", 0},
		{`set -e; qm status 999 2>/dev/null; echo on`, "", "", 255},
		{`qm status 999 2>/dev/null || echo none`, "none\n", "", 0},
		{`for i in 1 2; do echo $i; done; [ "$(id -u)" = 0 ] && echo root`, "1\n2\nroot\n", "", 0},
		{`cat /root/list | grep -v 'a:' | wc -l; cat list | grep -c b; cat nothing`, "2\n2\n", "cat: nothing: No such file or directory\n", 1},
		{`grep -q a < /root/list && echo has; grep -q z < /root/list`, "has\n", "", 1},
		{`echo one > /root/new; echo two >> new; cat /root/new | tail -n 1; cat < /root/new | head -1`, "two\none\n", "", 0},
		{`mkdir -p /srv/a/b && test -d /srv/a && echo x | tee /srv/a/b/c >/dev/null; [ -f /srv/a/b/c ] && [ ! -e /srv/b ]`, "", "", 0},
		{`mkdir /srv/a/b`, "", "mkdir: cannot create directory '/srv/a/b': File exists\n", 1},
		{`echo ok > /var/lib/vz/snippets/s.yaml; pvesm path local:snippets/s.yaml; cat /var/lib/vz/snippets/s.yaml`, "/var/lib/vz/snippets/s.yaml\nok\n", "", 0},
		{`rm /var/lib/vz/snippets/s.yaml && ! cat /var/lib/vz/snippets/s.yaml 2>/dev/null && rm /root/new`, "", "", 0},
		{`rm new; rm -f new`, "", "rm: cannot remove 'new': No such file or directory\n", 0},
		{`command -v qm >/dev/null && ! command -v apt`, "", "", 0},
		{"echo 'a\r\nb'", "a\r\nb\n", "", 0},
		{`echo "$HOME $UID $0"`, "/root 0 gosh\n", "", 0},
		{`/bin/bash -c 'export A=1; sh -c "echo \$A \$B \$1" sh x'`, "1 x\n", "", 0},
		{`sudo -n qm status 8000`, "status: stopped\n", "", 0},
		{`sh -c 'echo $HOME; exec "$@"' sh qm status 8000`, "/root\nstatus: stopped\n", "", 0},
		{`qm status 8000; reboot`, "status: stopped\n", "bash: line 1: reboot: command not found\n", 127},
		{`exit 7`, "", "", 7},
		// No way from the shell to the machine that the test runs on:
		{`cat /etc/hostname /proc/self/environ; echo x > /etc/pvesim`, "", "cat: /etc/hostname: No such file or directory\n" +
			"cat: /proc/self/environ: No such file or directory\nopen /etc/pvesim: file does not exist\n", 1},
		{`[ -e /bin/sh ] || [ -d /usr ] || echo /b*`, "/b*\n", "", 0},
		{`. /etc/profile`, "", "bash: line 1: . /etc/profile: " + notSimulated, 2},
		{`cd /; pwd`, "", "bash: line 1: cd /: " + notSimulated + "bash: line 1: pwd: " + notSimulated, 2},
		{`test -x /bin/sh`, "", "bash: line 1: test -x /bin/sh: " + notSimulated, 2},
		{`qm list & `, "", "bash: -c: line 1: " + notSimulated, 2},
		{`cat <(qm list)`, "", "bash: -c: line 1: " + notSimulated, 2},
		{`[[ -x /bin/sh ]]`, "", "bash: -c: line 1: " + notSimulated, 2},
		{`echo 'a`, "", "bash: -c: line 1:6: reached EOF without closing quote '\n", 2},
	} {
		out, errs, status := b.run(row.command)
		if out != row.out || errs != row.errs || status != row.status {
			t.Errorf("%s: %d\nout  %q\nwant %q\nerr  %q\nwant %q", row.command, status, out, row.out, errs, row.errs)
		}
	}
}

// TestStandardInput: a command reads what the client sends until its end, and one that reads nothing does not wait for it.
func TestStandardInput(t *testing.T) {
	b := newBench(t)
	session := func(command string, in string) {
		t.Helper()
		s, err := b.client().NewSession()
		if err != nil {
			t.Fatal(err)
		}
		// Not s.Stdin: Run reports the input that a command leaves unread as an error, if the command ends first.
		to, err := s.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = io.WriteString(to, in)
			_ = to.Close()
		}()
		if err := s.Run(command); err != nil {
			t.Errorf("%s: %v", command, err)
		}
		<-sent
	}
	text := strings.Repeat("0123456789abcde\n", 1<<14) // more than a pipe holds
	session(`/bin/bash -c 'set -e; /usr/bin/tee /var/lib/vz/snippets/big.yaml'`, text)
	session(`qm status 8000`, text)
	b.cluster.Do(func(w *state.World) {
		if v := w.Volume("pve1", "local:snippets/big.yaml"); v == nil || v.Data != text {
			t.Error("the file is not as it was sent")
		}
	})
	s, err := b.client().NewSession()
	if err != nil {
		t.Fatal(err)
	}
	open, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run("qm status 8000"); err != nil {
		t.Errorf("without an end of its input: %v", err)
	}
	_ = open.Close()
}

// TestFaultsInScripts: a fault meets each command of a script, and one that cuts the connection ends the script.
func TestFaultsInScripts(t *testing.T) {
	b := newBench(t)
	b.put("pve1", "local-zfs", "vm-100-disk-0", 100)
	rules := []fault.Rule{{Match: fault.Match{Method: "SSH", Path: "pvesm free"}, Phase: fault.After}}
	if err := b.cluster.Faults().Put(rules); err != nil {
		t.Fatal(err)
	}
	if _, _, status := b.run("qm status 8000; pvesm free local-zfs:vm-100-disk-0 | cat; qm list"); status != -1 {
		t.Errorf("status %d", status)
	}
	var paths []string
	for _, op := range b.cluster.Ops() {
		paths = append(paths, op.Path)
	}
	if got := strings.Join(paths, ", "); got != "qm status, pvesm free" && got != "qm status, pvesm free, cat" {
		t.Errorf("operations: %s", got)
	}
}

// TestPassword: root logs in with the password of root@pam, too, and no one else.
func TestPassword(t *testing.T) {
	b := newBench(t)
	var right string
	b.cluster.Do(func(w *state.World) { right = w.Users["root@pam"].Password })
	for _, row := range []struct {
		user, password string
		in             bool
	}{{"root", right, true}, {"root", right + "x", false}, {"root", "", false}, {"admin", right, false}} {
		c, err := ssh.Dial("tcp", b.address, &ssh.ClientConfig{User: row.user, Auth: []ssh.AuthMethod{ssh.Password(row.password)},
			HostKeyCallback: ssh.FixedHostKey(b.server.host.PublicKey())})
		if (err == nil) != row.in {
			t.Errorf("%s with %q: %v", row.user, row.password, err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}
