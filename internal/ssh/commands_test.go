package ssh

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommands(t *testing.T) {
	ctx := t.Context()
	tests := []struct {
		name  string
		do    func(*Shell) (any, error)
		reply reply
		line  string // what the node is asked; "" = nothing
		want  any
		fails string // part of the error; "" = success
	}{
		{"unlock", func(s *Shell) (any, error) { return nil, s.Unlock(ctx, "pve1", 100) },
			reply{}, "qm unlock 100", nil, ""},
		{"unlock a missing VM", func(s *Shell) (any, error) { return nil, s.Unlock(ctx, "pve1", 100) },
			reply{status: 2, stderr: "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist\n"}, "qm unlock 100",
			nil,
			"unlock VM 100 on node pve1: qm unlock 100: exit status 2: Configuration file 'nodes/pve1/qemu-server/100.conf' " +
				"does not exist"},
		{"unlock no VMID", func(s *Shell) (any, error) { return nil, s.Unlock(ctx, "pve1", 99) },
			reply{}, "", nil, "between 100 and 999999999"},
		{"set", func(s *Shell) (any, error) {
			return s.SetVM(ctx, "pve1", 100, map[string]string{"scsi1": "local-zfs:0,import-from=/iso/it's $(x).img",
				"boot": "order=scsi1"}, "ab12")
		}, reply{stdout: "update VM 100: …\n"},
			`qm set 100 --boot 'order=scsi1' --scsi1 'local-zfs:0,import-from=/iso/it'\''s $(x).img' --digest ab12`,
			"update VM 100: …\n", ""},
		{"set, refused", func(s *Shell) (any, error) {
			return s.SetVM(ctx, "pve1", 100, map[string]string{"scsi1": "a:0"},
				"")
		},
			reply{status: 255, stderr: "storage 'a' does not exist\n"}, "qm set 100 --scsi1 a:0", "",
			"storage 'a' does not exist"},
		{"set no option", func(s *Shell) (any, error) {
			return s.SetVM(ctx, "pve1", 100, map[string]string{"--delete x": "a"}, "")
		},
			reply{}, "", "", "no option of a VM"},
		{"set an option in place of a value", func(s *Shell) (any, error) {
			return s.SetVM(ctx, "pve1", 100, map[string]string{"scsi1": "--force"}, "")
		},
			reply{}, "", "", "no option of a VM"},
		{"set no VMID", func(s *Shell) (any, error) { return s.SetVM(ctx, "pve1", 1, map[string]string{"scsi1": "a:0"}, "") },
			reply{}, "", "", "between 100 and 999999999"},
		{"free", func(s *Shell) (any, error) { return nil, s.FreeVolume(ctx, "pve1", "local-zfs:vm-100-disk-0") },
			reply{stdout: "Removed volume 'local-zfs:vm-100-disk-0'\n"}, "pvesm free local-zfs:vm-100-disk-0", nil, ""},
		{"free a missing volume", func(s *Shell) (any, error) { return nil, s.FreeVolume(ctx, "pve1", "lvm:vm-100-disk-0") },
			reply{status: 5, stderr: "lvremove 'vg/vm-100-disk-0' error:   Failed to find logical volume \"vg/vm-100-disk-0\"\n"},
			"pvesm free lvm:vm-100-disk-0", nil, ""},
		{"free on a missing storage", func(s *Shell) (any, error) {
			return nil, s.FreeVolume(ctx, "pve1",
				"nope:vm-100-disk-0")
		},
			reply{status: 2, stderr: "storage 'nope' does not exist\n"}, "pvesm free nope:vm-100-disk-0", nil,
			"storage 'nope' does not exist"},
		{"free an option", func(s *Shell) (any, error) { return nil, s.FreeVolume(ctx, "pve1", "--help") },
			reply{}, "", nil, "not a volume id"},
		{"free a path", func(s *Shell) (any, error) { return nil, s.FreeVolume(ctx, "pve1", "/dev/sda") },
			reply{}, "", nil, "not a volume id"},
		{"run", func(s *Shell) (any, error) { return s.Run(ctx, "pve1", "echo", "", "$HOME", "a=b") },
			reply{stdout: "out"}, `echo '' '$HOME' 'a=b'`, "out", ""},
		{"run nothing", func(s *Shell) (any, error) { return s.Run(ctx, "pve1") }, reply{}, "", "", "no command given"},
		{"run silent failure", func(s *Shell) (any, error) { return s.Run(ctx, "pve1", "false") },
			reply{status: 1}, "false", "", "run false on node pve1: false: exit status 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			srv := newServer(t, always(test.reply))
			got, err := test.do(srv.shell(nil))
			var failed *Error
			switch {
			case test.fails == "" && err != nil:
				t.Fatal(err)
			case test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)):
				t.Fatalf("error %v, want one with %q", err, test.fails)
			case err != nil && !errors.As(err, &failed):
				t.Fatalf("error is a %T", err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			var want []string
			if test.line != "" {
				want = []string{test.line}
			}
			if _, commands := srv.seen(); cmp.Diff(want, commands) != "" {
				t.Errorf("commands: %s", cmp.Diff(want, commands))
			}
		})
	}
}

func TestSudo(t *testing.T) {
	srv := newServer(t, func(user, _ string) reply { return reply{stdout: user} })
	out, err := srv.shell(func(c *Config) { c.Username = "terraform" }).Run(t.Context(), "pve1", "qm", "list")
	if err != nil || out != "terraform" {
		t.Fatalf("%q, %v", out, err)
	}
	if _, commands := srv.seen(); commands[0] != "sudo -n -- qm list" {
		t.Errorf("command %q", commands[0])
	}
}

func TestLongOutput(t *testing.T) {
	srv := newServer(t, always(reply{status: 1, stderr: strings.Repeat("é", 5000) + "the cause"}))
	_, err := srv.shell(nil).Run(t.Context(), "pve1", "x")
	var failed *Error
	if !errors.As(err, &failed) || len(failed.Stderr) > 2010 || !strings.HasSuffix(failed.Stderr, "the cause") {
		t.Errorf("%v", err)
	}
	srv = newServer(t, always(reply{stdout: strings.Repeat("x", maxOutput+1)}))
	if _, err = srv.shell(nil).Run(t.Context(), "pve1", "x"); err == nil || !strings.Contains(err.Error(),
		"printed more than") {
		t.Errorf("too long an output: %v", err)
	}
}
