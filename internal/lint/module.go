package lint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// module is one folder of a configuration.
type module struct {
	dir       string
	blocks    []*block
	locals    map[string]hclsyntax.Expression
	variables map[string]*variable
	sources   map[string]string // source address of each provider, by its local name
	callers   []*block
}

// variable is one input of a module.
type variable struct {
	name       string
	in         *module
	typ, value hclsyntax.Expression   // each may be nil
	files      []hclsyntax.Expression // its values in .tfvars files
}

// block is one block of a module.
type block struct {
	kind       string
	labels     []string
	attributes map[string]argument
	blocks     []*block
	at         hcl.Range
	in         *module
}

// argument is one argument of a block.
type argument struct {
	at    hcl.Range
	value hclsyntax.Expression
}

// label returns the first label, or "".
func (b *block) label() string {
	if len(b.labels) > 0 {
		return b.labels[0]
	}
	return ""
}

// loader reads modules, each once.
type loader struct {
	parser  *hclparse.Parser
	modules map[string]*module
	order   []*module
}

// open reads a module and those that it calls by a local path.
func (l *loader) open(dir string) (*module, error) {
	dir = filepath.Clean(dir)
	if m := l.modules[dir]; m != nil {
		return m, nil
	}
	files, err := l.parse(dir)
	if err != nil {
		return nil, err
	}
	return l.add(dir, files)
}

func (l *loader) add(dir string, files []file) (*module, error) {
	m := newModule(dir, files)
	l.modules[dir] = m
	l.order = append(l.order, m)
	for _, b := range m.blocks {
		source, ok := b.source()
		if b.kind != "module" || !ok {
			continue
		}
		child, err := l.open(filepath.Join(dir, source))
		if err != nil {
			return nil, fmt.Errorf("%s: module %q: %w", b.at, b.label(), err)
		}
		child.callers = append(child.callers, b)
	}
	return m, nil
}

// source returns the local path of a module call.
func (b *block) source() (string, bool) {
	a, ok := b.attributes["source"]
	if !ok {
		return "", false
	}
	source, ok := literal(a.value)
	return source, ok && (strings.HasPrefix(source, "./") || strings.HasPrefix(source, "../"))
}

// ErrNoConfiguration says that a folder has no configuration.
var ErrNoConfiguration = errors.New("no .tf file")

// parse reads the files of a module. OpenTofu prefers a .tofu file to the .tf file of the same name.
func (l *loader) parse(dir string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, entry := range entries {
		if name := entry.Name(); !entry.IsDir() && isConfiguration(name) {
			names = append(names, name)
		}
	}
	var files []file
	for _, name := range names {
		if rest, ok := strings.CutSuffix(name, ".tf"); ok && slices.Contains(names, rest+".tofu") {
			continue
		}
		if rest, ok := strings.CutSuffix(name, ".tf.json"); ok && slices.Contains(names, rest+".tofu.json") {
			continue
		}
		f, err := l.parseFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoConfiguration)
	}
	return files, nil
}

func isConfiguration(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") {
		return false
	}
	return name == "terraform.tfvars" || name == "terraform.tfvars.json" || slices.ContainsFunc([]string{".tf", ".tf.json",
		".tofu", ".tofu.json", ".tfquery.hcl", ".tfquery.json", ".auto.tfvars", ".auto.tfvars.json"},
		func(end string) bool { return strings.HasSuffix(name, end) })
}

func (l *loader) parseFile(name string) (file, error) {
	text, err := os.ReadFile(name) //nolint:gosec // the user named its folder
	if err != nil {
		return file{}, err
	}
	parse := l.parser.ParseHCL
	if strings.HasSuffix(name, ".json") {
		parse = l.parser.ParseJSON
	}
	parsed, diags := parse(text, name)
	if diags.HasErrors() {
		return file{}, diags
	}
	return file{name: name, body: parsed.Body, text: text}, nil
}

// Configurations returns the folders below one that hold a configuration, without those that Terraform keeps modules
// and providers in.
func Configurations(top string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != top && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !entry.IsDir() && isConfiguration(entry.Name()) && !slices.Contains(dirs, filepath.Dir(name)):
			dirs = append(dirs, filepath.Dir(name))
		}
		return nil
	})
	return dirs, err
}
