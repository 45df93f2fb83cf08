package lint

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Dir compares the configuration in a folder with the schema, together with the modules that it calls by a local path.
func (s *Schema) Dir(dir string) (Result, error) {
	l := &loader{parser: hclparse.NewParser(), modules: map[string]*module{}}
	if _, err := l.open(dir); err != nil {
		return Result{}, err
	}
	return s.check(l.order), nil
}

// Files compares the files of one module, parsed already. Modules that it calls are left out.
func (s *Schema) Files(files map[string]*hcl.File) Result {
	var all []file
	for _, name := range slices.Sorted(maps.Keys(files)) {
		all = append(all, file{name: name, body: files[name].Body, text: files[name].Bytes})
	}
	return s.check([]*module{newModule("", all)})
}

func (s *Schema) check(modules []*module) Result {
	c := &checker{schema: s, active: map[hclsyntax.Expression]bool{}, followed: map[hclsyntax.Expression]bool{},
		known: map[hcl.Range]bool{}, unjudged: map[hcl.Range]bool{}}
	all := map[*module]*uses{}
	var r Result
	for _, m := range modules {
		all[m] = usesOf(m)
		for _, b := range m.blocks {
			if c.wanted(b) != nil {
				r.Blocks++
			}
			c.block(b)
		}
	}
	r.Findings = c.findings(all)
	r.Unjudged = slices.SortedFunc(maps.Keys(c.unjudged), func(a, b hcl.Range) int {
		return cmp.Or(cmp.Compare(a.Filename, b.Filename), cmp.Compare(a.Start.Byte, b.Start.Byte))
	})
	return r
}
