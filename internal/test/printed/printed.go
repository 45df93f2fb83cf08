// Package printed judges the texts that the provider prints, for tests: each command in them is what a shell makes of it,
// and nothing in them moves the cursor or the direction of a line. It knows nothing of how the provider makes them.
package printed

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"
)

// known are the programs that a printed command may run.
var known = []string{"[", "grep", "ha-manager", "pct", "perl", "pvenode", "pvesh", "pvesm", "pvesr", "pveum", "qemu-img", "qm", "rm", "ssh-keygen", "terraform", "zfs"}

var (
	quoted  = regexp.MustCompile("`([^`\n]+)`")
	listed  = regexp.MustCompile(`(?m)^ +(?:as root on [A-Za-z0-9-]+: (.+)|(pveum .+))$`)
	setting = regexp.MustCompile(`^[a-z_.]+ (?:= |\{)`) // of the configuration: `power_off = "force"`
)

// Commands are the command lines in a text: those in backquotes, those that a list of leftovers ends in, and those that are an indented line. One word in
// backquotes is a name, unless it is a program.
func Commands(text string) []string {
	var all []string
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		line := m[1]
		if (strings.ContainsAny(line, " \t") || slices.Contains(known, line)) && !setting.MatchString(line) {
			all = append(all, line)
		}
	}
	for _, m := range listed.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1]+m[2])
	}
	return all
}

// Unsafe says what is wrong with a text, nothing if it can be printed and its commands can be run.
func Unsafe(text string) []string {
	var wrong []string
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == unicode.ReplacementChar) {
			wrong = append(wrong, fmt.Sprintf("holds the character %U", r))
			break
		}
	}
	for _, line := range Commands(text) {
		commands, err := Words(line)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("prints the command %q: %v", line, err))
		}
		for _, words := range commands {
			if !slices.Contains(known, words[0]) {
				wrong = append(wrong, fmt.Sprintf("prints the command %q, and %q is no program of the list", line, words[0]))
			}
		}
	}
	return wrong
}

// Words are the words of each simple command of a line, as bash reads it. A line of which the shell makes more than simple
// commands of fixed words, one after the other, is an error.
func Words(line string) ([][]string, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return nil, err
	}
	r := &reader{}
	for _, statement := range file.Stmts {
		r.statement(statement)
	}
	if len(r.all) == 0 {
		r.fail("there is no command")
	}
	return r.all, errors.Join(r.errs...)
}

type reader struct {
	all  [][]string
	errs []error
}

func (r *reader) fail(form string, args ...any) { r.errs = append(r.errs, fmt.Errorf(form, args...)) }

func (r *reader) statement(s *syntax.Stmt) {
	if s.Negated || s.Background || s.Coprocess || len(s.Redirs) > 0 {
		r.fail("it redirects, negates or goes to the background")
	}
	switch command := s.Cmd.(type) {
	case *syntax.CallExpr:
		r.call(command)
	case *syntax.BinaryCmd:
		if command.Op != syntax.AndStmt {
			r.fail("it has the operator %s", command.Op)
		}
		r.statement(command.X)
		r.statement(command.Y)
	case *syntax.Subshell:
		for _, inner := range command.Stmts {
			r.statement(inner)
		}
	default:
		r.fail("it has a %T", command)
	}
}

func (r *reader) call(c *syntax.CallExpr) {
	if len(c.Assigns) > 0 || len(c.Args) == 0 {
		r.fail("it assigns")
		return
	}
	words := make([]string, len(c.Args))
	for i, arg := range c.Args {
		for _, part := range arg.Parts {
			words[i] += r.fixed(part)
		}
	}
	r.all = append(r.all, words)
}

// fixed is a part of a word that no shell changes. "$?" is the status of the command before.
func (r *reader) fixed(part syntax.WordPart) string {
	switch p := part.(type) {
	case *syntax.Lit:
		if strings.ContainsAny(p.Value, "\\*?[]{}~!#^%") && p.Value != "[" && p.Value != "]" {
			r.fail("a shell may change the word %q", p.Value)
		}
		return p.Value
	case *syntax.SglQuoted:
		if p.Dollar {
			r.fail("it has a quotation $''")
		}
		return p.Value
	case *syntax.ParamExp:
		if p.Short && p.Param != nil && p.Param.Value == "?" {
			return "$?"
		}
	case *syntax.DblQuoted:
		text := ""
		for _, inner := range p.Parts {
			text += r.fixed(inner)
		}
		return text
	}
	r.fail("it has a %T", part)
	return ""
}
