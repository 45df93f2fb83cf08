package sshd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// session is one command line of a client. Root's login shell, bash, reads it.
type session struct {
	server     *Server
	node, line string
	out, errs  io.Writer
	greeting   sync.Once
}

// errCut is the end of a command line whose connection is to be dropped before the client learns the end.
var errCut = errors.New("the connection is cut")

// run carries out a command line. cut means that the connection is to be dropped before the client learns the end.
// Goroutines that end with the channel join rest.
func (s *Server) run(
	ctx context.Context, node, line string, channel ssh.Channel, rest *sync.WaitGroup,
) (status int, cut bool) {
	if !s.online(node) {
		return 0, true
	}
	c := &session{server: s, node: node, line: line}
	c.out, c.errs = &greeted{c, channel}, &greeted{c, channel.Stderr()}
	in, from, err := os.Pipe() // the interpreter wants a file of the operating system
	if err != nil {
		return 0, true
	}
	defer func() { _ = in.Close() }()
	rest.Go(func() {
		_, _ = io.Copy(from, channel)
		_ = from.Close()
	})
	err = c.interpret(ctx, process{name: "bash", env: loginEnvironment(), in: in, out: c.out, errs: c.errs}, line)
	c.greet()
	var exit interp.ExitStatus
	switch {
	case err == nil:
		return 0, false
	case errors.As(err, &exit):
		return int(exit), false
	default: // cut, or the server is closed
		return 0, true
	}
}

func loginEnvironment() []string {
	return []string{
		"HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "UID=0", "EUID=0", "GID=0",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
}

// greeted is an output of a session, behind the login shell's own text.
type greeted struct {
	*session
	to io.Writer
}

// Write writes a part of the output.
func (g *greeted) Write(p []byte) (int, error) {
	g.greet()
	return g.to.Write(p)
}

// greet prints the text of the login shell's start-up files before anything else: sshd has that shell run each command
// and, as Debian configures it, the SFTP server (openssh session.c do_exec, do_child; sshd_config Subsystem).
func (c *session) greet() {
	c.greeting.Do(func() {
		if out, ok := c.out.(*greeted); ok {
			c.server.greet(c.node, out.to)
		}
	})
}

func (s *Server) greet(node string, to io.Writer) {
	text := ""
	s.cluster.Do(func(w *state.World) {
		if n := w.Nodes[node]; n != nil {
			text = n.LoginText
		}
	})
	_, _ = io.WriteString(to, text)
}

// process is a shell that is about to read a script.
type process struct {
	name      string // "bash" or "sh", for its messages
	env       []string
	params    []string
	in        *os.File
	out, errs io.Writer
}

// scriptOf reads sh -c SCRIPT [NAME ARGUMENT…]; nil for another command.
func scriptOf(args []string) *process {
	name := path.Base(args[0])
	if name != "sh" && name != "bash" || len(args) < 3 || args[1] != "-c" {
		return nil
	}
	p := &process{name: name}
	if len(args) > 4 { // the fourth is $0
		p.params = args[4:]
	}
	return p
}

// interpret runs a script as a shell does, with the node's own commands only: no command, file or directory of the
// machine is touched.
func (c *session) interpret(ctx context.Context, p process, script string) error {
	file, err := parse(p.name, script)
	if err != nil {
		_, _ = fmt.Fprintf(p.errs, "%s: %v\n", p.name, err)
		return interp.ExitStatus(2)
	}
	r, err := interp.New(
		interp.Env(expand.ListEnviron(p.env...)), interp.Dir("/"), interp.StdIO(p.in, p.out, p.errs),
		interp.Params(append([]string{"-f", "--"}, p.params...)...), // no globs: there is no tree to look into
		interp.CallHandler(allow), interp.OpenHandler(c.open), interp.StatHandler(c.stat),
		interp.ReadDirHandler2(noDirectory),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc {
			return func(ctx context.Context, args []string) error { return c.exec(ctx, p, args) }
		}),
	)
	if err != nil {
		return fmt.Errorf("start a shell: %w", err)
	}
	return r.Run(ctx, file)
}

// exec runs a command that is no builtin.
func (c *session) exec(ctx context.Context, p process, args []string) error {
	h := interp.HandlerCtx(ctx)
	if args = shell.Unprefixed(args); len(args) == 0 {
		return interp.ExitStatus(1)
	}
	if args[0] == refused {
		_, _ = fmt.Fprintf(h.Stderr, "%s: line 1: %s: shell syntax that is not simulated\n", p.name,
			strings.Join(args[1:], " "))
		return interp.ExitStatus(2)
	}
	if inner := scriptOf(args); inner != nil {
		inner.in, _ = h.Stdin.(*os.File)
		inner.env, inner.out, inner.errs = exported(h.Env), h.Stdout, h.Stderr
		return c.interpret(ctx, *inner, args[2])
	}
	if filter := shell.Filter(path.Base(args[0])); filter != nil {
		return status(filter(args[1:], h.Stdin, h.Stdout))
	}
	switch path.Base(args[0]) {
	case "uname":
		return status(c.server.uname(c.node, args[1:], h.Stdout, h.Stderr))
	case "openssl":
		return status(c.server.openssl(c.node, args[1:], h.Stdout, h.Stderr))
	}
	return c.tool(h, args)
}

// status is an exit status as the interpreter takes it.
func status(n int) error {
	if n == 0 {
		return nil
	}
	return interp.ExitStatus(n & 0xff)
}

// exported are the variables that a command inherits.
func exported(all expand.Environ) []string {
	var env []string
	all.Each(func(name string, v expand.Variable) bool {
		if v.Exported && v.Kind == expand.String {
			env = append(env, name+"="+v.Str)
		}
		return true
	})
	return append(env, "UID=0", "EUID=0", "GID=0") // these do not come from the parent
}

// tool runs one of PVE's tools, as an operation of the cluster.
func (c *session) tool(h interp.HandlerContext, args []string) error {
	words, vmid, rest, known := shell.Words(args)
	if !c.server.online(c.node) {
		return errCut
	}
	c.greet()
	var in []byte
	if known && shell.Reads(words, rest) {
		in, _ = io.ReadAll(h.Stdin) // a pipe: what has come until it was closed
	}
	var out, errs bytes.Buffer
	command := engine.Command{Node: c.node, Path: words, Line: c.line, VMID: vmid}
	end := c.server.cluster.Run(command, func(r *engine.Request) int {
		if !known {
			errs.WriteString("bash: line 1: " + args[0] + ": command not found\n")
			return 127
		}
		return shell.New(r, bytes.NewReader(in), &out, &errs).Execute(words, rest)
	})
	if end.Cut {
		return errCut
	}
	errs.WriteString(end.Refusal)
	_, _ = h.Stdout.Write(out.Bytes())
	_, _ = h.Stderr.Write(errs.Bytes())
	return status(end.Exit)
}

// parse reads a script. Constructs that would reach the machine, and those that no POSIX shell has, are refused.
func parse(name, script string) (*syntax.File, error) {
	dialect := syntax.LangBash
	if name == "sh" {
		dialect = syntax.LangPOSIX
	}
	// The parser drops a \r before a \n, in quotes too. A shell keeps it.
	script = strings.ReplaceAll(script, "\r\n", "\r\r\n")
	file, err := syntax.NewParser(syntax.Variant(dialect)).Parse(strings.NewReader(script), "")
	if err != nil {
		return nil, fmt.Errorf("-c: line %w", err)
	}
	plain := true
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ProcSubst, *syntax.CoprocClause, *syntax.TestClause, *syntax.ExtGlob, *syntax.TimeClause,
			*syntax.LetClause, *syntax.TestDecl:
			plain = false
		case *syntax.Stmt:
			plain = plain && !n.Background && !n.Coprocess
		}
		return plain
	})
	if !plain || len(file.Stmts) == 0 {
		return nil, errSyntax
	}
	// The interpreter ends with the status of the last command, even where "!" has turned it round.
	end, err := syntax.NewParser().Parse(strings.NewReader("exit $?"), "")
	if err != nil {
		return nil, err
	}
	file.Stmts = append(file.Stmts, end.Stmts...)
	return file, nil
}

var errSyntax = errors.New("-c: line 1: shell syntax that is not simulated")
