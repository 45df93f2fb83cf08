package sshd

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// run carries out a command line. cut means that the connection is to be dropped before the client learns the end.
func (s *Server) run(local, line string, channel ssh.Channel) (status int, cut bool) {
	commands, err := split(line)
	if err != nil {
		_, _ = channel.Stderr().Write([]byte("bash: " + err.Error() + "\n"))
		return 2, false
	}
	for n, args := range commands {
		script, err := posix(args)
		if err != nil {
			_, _ = channel.Stderr().Write([]byte("sh: 1: " + err.Error() + "\n"))
			return 2, false
		}
		args = script.command
		words, vmid, rest, known := shell.Words(args)
		var out, errs bytes.Buffer
		node, online := s.place(local, words, vmid, rest)
		if !online {
			return 0, true
		}
		if n == 0 {
			s.greet(node, channel)
		}
		_, _ = channel.Write([]byte(script.out))
		_, _ = channel.Stderr().Write([]byte(script.errs))
		c := engine.Command{Node: node, Path: words, Line: line, VMID: vmid}
		end := s.cluster.Run(c, func(r *engine.Request) int {
			if !known {
				errs.WriteString("bash: line 1: " + args[0] + ": command not found\n")
				return 127
			}
			return shell.New(r, &out, &errs).Execute(words, rest)
		})
		if end.Cut {
			return 0, true
		}
		errs.WriteString(end.Refusal)
		_, _ = channel.Write(out.Bytes())
		_, _ = channel.Stderr().Write(errs.Bytes())
		if end.Exit != 0 {
			return end.Exit, false
		}
	}
	return 0, false
}

// greet prints the text of the login shell's start-up files: sshd has that shell run each command and, as Debian
// configures it, the SFTP server (openssh session.c do_exec, do_child; sshd_config Subsystem).
func (s *Server) greet(node string, channel ssh.Channel) {
	text := ""
	s.cluster.Do(func(w *state.World) { text = w.Nodes[node].LoginText })
	_, _ = channel.Write([]byte(text))
}

// script is what sh -c does: it prints, and becomes a command.
type script struct {
	out, errs string
	command   []string
}

// posix reads a command line of sh -c. It knows echo of plain words, to either output, and exec "$@" after it. Any
// other command line stands for itself.
func posix(args []string) (script, error) {
	if len(args) < 3 || args[0] != "sh" || args[1] != "-c" {
		return script{command: args}, nil
	}
	var does script
	for part := range strings.SplitSeq(args[2], ";") {
		words := strings.Fields(part)
		to := &does.out
		if n := len(words) - 1; n > 0 && words[n] == ">&2" {
			to, words = &does.errs, words[:n]
		}
		switch {
		case slices.Equal(words, []string{"exec", `"$@"`}) && len(args) > 4: // the fourth is $0
			does.command = args[4:]
			return does, nil
		case len(words) == 0 || words[0] != "echo" || strings.ContainsAny(part, "'\"$\\`*?<|()#~"):
			return does, errSyntax
		}
		*to += strings.Join(words[1:], " ") + "\n"
	}
	return does, errSyntax // a script without a command is not simulated
}

// place finds the node that a command runs on, and whether it is up.
func (s *Server) place(local, words string, vmid int, rest []string) (found string, online bool) {
	host, _, err := net.SplitHostPort(local)
	if err != nil {
		host = local
	}
	s.cluster.Do(func(w *state.World) {
		defer func() { online = w.Nodes[found] != nil && w.Nodes[found].Online }()
		all := nodes(w)
		for i, n := range all {
			if host == n.Name || host == n.Address || strings.HasPrefix(host, n.Name+".") {
				found = n.Name
				return
			}
			if a, err := netip.ParseAddr(host); err == nil && i > 0 && a.Is4() && a.IsLoopback() && int(a.As4()[3]) == i+1 {
				found = n.Name
				return
			}
		}
		if found = holder(w, words, vmid, rest); found == "" && len(all) > 0 {
			found = all[0].Name
		}
	})
	return found, online
}

// holder is the node of the guest that qm names, or of the volume that the other tools name, the first by name if
// several nodes have one; "" if there is none.
func holder(w *state.World, words string, vmid int, rest []string) string {
	if strings.HasPrefix(words, "qm ") {
		if g := w.Guests[vmid]; g != nil {
			return g.Node
		}
		return ""
	}
	var on []string
	for _, v := range w.Volumes {
		s := w.Storages[v.Storage]
		if s == nil || v.Node == "" {
			continue
		}
		path := strings.TrimPrefix(s.VolumePath(v.Name), "/dev/zvol/")
		if slices.Contains(rest, v.Volid()) || slices.Contains(rest, path) {
			on = append(on, v.Node)
		}
	}
	if len(on) == 0 {
		return ""
	}
	return slices.Min(on)
}

var (
	errQuote  = errors.New("-c: line 1: unexpected EOF while looking for matching quote")
	errSyntax = errors.New("-c: line 1: shell syntax that is not simulated")
)

// split cuts a command line into commands joined by && and their words, with the shell's quoting.
func split(line string) ([][]string, error) {
	var commands [][]string
	var args []string
	var word strings.Builder
	open := false // a word has begun
	flush := func() {
		if open {
			args = append(args, word.String())
			word.Reset()
			open = false
		}
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n':
			flush()
		case c == '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, errQuote
			}
			word.WriteString(line[i+1 : i+1+end])
			open = true
			i += end + 1
		case c == '"':
			n, err := double(line[i+1:], &word)
			if err != nil {
				return nil, err
			}
			open = true
			i += n
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			open = true
		case c == '&' && strings.HasPrefix(line[i:], "&&"):
			flush()
			if len(args) == 0 {
				return nil, errSyntax
			}
			commands, args = append(commands, args), nil
			i++
		case strings.IndexByte("&|;<>()$`*?", c) >= 0 || strings.IndexByte("#~!{}", c) >= 0 && !open:
			return nil, errSyntax
		default:
			word.WriteByte(c)
			open = true
		}
	}
	flush()
	if len(args) == 0 {
		return nil, errSyntax
	}
	return append(commands, args), nil
}

// double reads a double-quoted part up to its end and returns how many bytes it took, the closing quote included.
func double(rest string, word *strings.Builder) (int, error) {
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"':
			return i + 1, nil
		case c == '$' || c == '`':
			return 0, errSyntax
		case c == '\\' && i+1 < len(rest) && strings.IndexByte("\\\"$`", rest[i+1]) >= 0:
			i++
			word.WriteByte(rest[i])
		default:
			word.WriteByte(c)
		}
	}
	return 0, errQuote
}
