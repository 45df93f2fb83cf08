package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// kind is a kind of mistake: where it may be made, how, and which tests are to notice.
type kind struct {
	name  string
	files []string // patterns of product files
	find  func(s *source) []mistake
	laws  []law
}

// law is a test, in the package that has it, and a setting of the environment for it ("NAME=VALUE").
type law struct{ pkg, run, setting string }

// every is the setting with which a law plays all of its rows.
const every = "SHARE=1"

// sources is the package whose tests read the sources.
const sources = "./internal"

// mistake is an edit of a product file that someone could have made.
type mistake struct {
	kind     *kind
	file     string
	line     int
	what     string
	from, to int // of the text that goes
	text     string
}

func kinds() []*kind {
	const plans, planning = "./internal/test/plan", "internal/resource/vm/planning/*.go"
	front := []law{{"./internal/preflight", ".", ""}, {"./internal/resource/vm/...", ".", ""}, {"./internal/create", ".", ""},
		{plans, "Refus|Certain|Preflight|BadInput|Tells|Together|Input|Quiet", ""}, {plans, "TestLawReplacement|TestLawDiagnostics", ""},
		{"./internal/test/lifecycle", ".", ""}, {plans, "TestLawOddStrings|TestLawPrivileges", ""},
		{"./internal/test/storage", ".", ""}, {"./internal/test/adoption", ".", ""}, {plans, "OneChange", every},
		{plans, "TestLawPrivileges|TestLawUnknowns", every}}
	return []*kind{
		{name: "a forgotten privilege", find: forgotten,
			files: []string{"internal/preflight/privileges.go", "internal/preflight/grant.go",
				"internal/resource/file/kind.go", "internal/resource/snapshot/resource.go",
				"internal/resource/harule/resource.go"},
			laws: []law{{plans, "TestLawPrivileges", ""}, {"./internal/test/permissions", ".", ""}, {"./internal/preflight", ".", ""},
				{plans, "TestLawPrivileges", every}}},
		{name: "a plan that keeps a known value", find: kept,
			files: []string{"internal/resource/vm/planning/consequences.go", "internal/resource/vm/planning/replace.go",
				"internal/resource/vm/planning/volumes.go"},
			laws: []law{{plans, "TestLawUnknowns", ""}, {"./internal/resource/vm", ".", ""}, {plans, "TestOneChange", every},
				{"./internal/test/lifecycle", ".", ""}, {"./internal/test/storage", "Survives", ""},
				{plans, "TestLawUnknowns", every}}},
		{name: "a wrong attribute in a diagnostic", find: misplaced, laws: front,
			files: []string{planning, "internal/preflight/*.go", "internal/resource/vm/validation/*.go",
				"internal/create/taken.go"}},
		{name: "a dropped warning", find: unwarned, files: []string{planning},
			laws: []law{{"./internal/resource/vm/...", ".", ""},
				{plans, "TestLawRestarts|TestLawDiagnostics|Warn|Grown|Forgotten|Preflight|Tells", ""}, {"./internal/test/lifecycle", ".", ""},
				{"./internal/test/adoption", ".", ""}, {"./internal/test/contention", "ThirdParty|Disk|Destroy", ""}}},
		{name: "a negated condition", find: negated, laws: front,
			files: []string{planning, "internal/preflight/*.go", "internal/resource/vm/validation/*.go"}},
		{name: "a dropped normal form", find: unnormalized,
			files: []string{"internal/resource/vm/model/*.go", "internal/vm/*.go", "internal/vm/property/*.go"},
			laws: []law{{"./internal/vm/...", ".", ""}, {"./internal/resource/vm/...", ".", ""},
				{plans, "TestLawOddStrings|TestNoDrift|TestLawImport", ""}}},
		{name: "a write in a read path", find: writing, laws: []law{{plans, "TestLawReadOnly", ""}, {plans, "TestOneChange", every}},
			files: []string{"internal/resource/vm/read.go", "internal/resource/vm/import.go",
				"internal/resource/vm/planning/plan.go"}},
		{name: "an unquoted command", find: unquoted,
			files: []string{"internal/shell/*.go", "internal/create/*.go", "internal/destroy/*.go", "internal/preflight/*.go",
				"internal/guest/*.go", "internal/orphan/*.go", "internal/file/*.go", "internal/guard/*.go"},
			laws: []law{{"./internal/shell", ".", ""}, {"./internal/resource/kit", "TestLawCommands", ""},
				{sources, "TestLawCommands", ""}, {"./internal/test/printed/...", ".", ""},
				{plans, "TestLawPrivileges|TestLawDiagnostics", ""}}},
	}
}

// forgotten drops an element of a list of privileges, or an addition to one.
func forgotten(s *source) (all []mistake) {
	ast.Inspect(s.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			list, ok := n.Type.(*ast.ArrayType)
			if !ok || len(n.Elts) == 0 {
				return true
			}
			_, structs := n.Elts[0].(*ast.CompositeLit)
			text := s.text(n)
			named := func(word string) bool { return strings.Contains(text, word) }
			if _, isName := list.Elt.(*ast.Ident); !structs && !isName || !slices.ContainsFunc(privilegeWords(), named) {
				return true
			}
			for _, e := range n.Elts {
				all = append(all, s.drop(e, true, "without "+firstLine(s.text(e))))
			}
		case *ast.AssignStmt:
			text := s.text(n)
			if n.Tok == token.ASSIGN && strings.Contains(text, "append(all") && strings.Contains(text, "Uses(") {
				all = append(all, s.drop(n, false, "without "+firstLine(text)))
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "storage" || f.Name == "on") {
				all = append(all, s.replace(n, "_ = 0", "without "+firstLine(s.text(n))))
			}
		}
		return true
	})
	return all
}

func privilegeWords() []string { return []string{"VM.", "Datastore.", "Sys.", "Pool.", "SDN."} }

// kept drops a consequence of a change.
func kept(s *source) (all []mistake) {
	ast.Inspect(s.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			i, ok := n.Lhs[0].(*ast.IndexExpr)
			if ok && slices.Contains([]string{"c.unknown", "c.null", "disk"}, s.text(i.X)) {
				all = append(all, s.replace(n, "_ = "+s.text(n.Rhs[0]), "without "+firstLine(s.text(n))))
			}
		case *ast.ExprStmt:
			if strings.Contains(s.text(n), "replace.Append") || strings.Contains(s.text(n), "replaceFor(") {
				all = append(all, s.replace(n, "_ = 0", "without "+firstLine(s.text(n))))
			}
		}
		return true
	})
	return all
}

// misplaced puts a diagnostic on another attribute.
func misplaced(s *source) (all []mistake) {
	ast.Inspect(s.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := s.text(n.Fun)
			method := name[strings.LastIndex(name, ".")+1:]
			at := -1
			switch method {
			case "AddAttributeError", "AddAttributeWarning", "refuse", "Refuse":
				at = 0
			case "say":
				at = 1
			case "refuseVolume":
				at = 1
			}
			if at < 0 || len(n.Args) <= at {
				return true
			}
			switch arg := n.Args[at].(type) {
			case *ast.BasicLit:
				if arg.Value != `"description"` && arg.Value != `""` {
					all = append(all, s.replace(arg, `"description"`, "on description instead of "+arg.Value))
				}
			case *ast.CallExpr:
				if s.text(arg.Fun) == "path.Root" || strings.HasPrefix(s.text(arg), "path.Root(") {
					all = append(all, s.replace(arg, `path.Root("description")`, "on description instead of "+s.text(arg)))
				}
			}
		case *ast.KeyValueExpr:
			if k, ok := n.Key.(*ast.Ident); ok && k.Name == "Path" {
				if v, ok := n.Value.(*ast.BasicLit); ok && v.Kind == token.STRING && v.Value != `""` {
					all = append(all, s.replace(v, `"description"`, "on description instead of "+v.Value))
				}
			}
		}
		return true
	})
	return all
}

// unwarned drops a warning.
func unwarned(s *source) (all []mistake) {
	ast.Inspect(s.tree, func(n ast.Node) bool {
		e, ok := n.(*ast.ExprStmt)
		if !ok {
			return true
		}
		text := s.text(e)
		begins := func(with string) bool { return strings.HasPrefix(text, with) }
		if strings.Contains(text, "AddAttributeWarning(") || strings.Contains(text, "AddWarning(") ||
			slices.ContainsFunc([]string{"warnings{p}.", "p.warn", "restart{p}"}, begins) {
			all = append(all, s.drop(e, false, "without "+firstLine(text)))
		}
		return true
	})
	return all
}

// negated turns a condition around.
func negated(s *source) (all []mistake) {
	ast.Inspect(s.tree, func(n ast.Node) bool {
		if i, ok := n.(*ast.IfStmt); ok {
			text := s.text(i.Cond)
			all = append(all, s.replace(i.Cond, "!("+text+")", "not "+firstLine(text)))
		}
		return true
	})
	return all
}

// unnormalized leaves out what makes two spellings one.
func unnormalized(s *source) (all []mistake) {
	one := []string{"strings.TrimSpace", "strings.ToLower", "strings.ToUpper", "property.TrimDescription",
		"TrimDescription", "trimmed"}
	two := []string{"strings.TrimSuffix", "strings.TrimPrefix", "strings.TrimRight", "strings.TrimLeft", "strings.Trim"}
	ast.Inspect(s.tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := s.text(call.Fun)
		switch {
		case slices.Contains(one, name) && len(call.Args) == 1:
			all = append(all, s.replace(call, s.text(call.Args[0]), "without "+name))
		case slices.Contains(two, name) && len(call.Args) == 2:
			all = append(all, s.replace(call, s.text(call.Args[0]), "without "+firstLine(s.text(call))))
		}
		return true
	})
	return all
}

// writes are the places where a VM is only read or planned, each with a request that destroys it.
func writes() map[string]string {
	return map[string]string{
		"r.machines.Read(ctx, state.Ref(private))": "_, _, _ = r.machines.Delete(ctx, state.DeleteRequest(private))",
		"p.volumes = p.resolveVolumes(ctx)": "if p.Machines != nil {\n" +
			"_, _, _ = p.Machines.Delete(ctx, p.Prior.DeleteRequest(p.private))\n}",
		"r.machines.Adopt(ctx, asked.node, asked.vmid)": "m := model.FromGuest(found)\n" +
			"_, _, _ = r.machines.Delete(ctx, m.DeleteRequest(model.PrivateState{Identity: found.Identity}))",
	}
}

// writing sends a request that destroys the VM where one is only read or planned.
func writing(s *source) (all []mistake) {
	ast.Inspect(s.tree, func(n ast.Node) bool {
		stmt, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for place, write := range writes() {
			if strings.Contains(s.text(stmt), place) {
				all = append(all, s.insert(s.offset(stmt.End()), "\n"+write, stmt, "a destroy after "+firstLine(s.text(stmt))))
			}
		}
		return true
	})
	return all
}

// unquoted puts a word into a command as it is.
func unquoted(s *source) (all []mistake) {
	ast.Inspect(s.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := s.text(n.Fun)
			if name == "shell.Quote" || name == "Quote" || name == "quote" || name == "shell.Word" {
				if len(n.Args) == 1 {
					all = append(all, s.replace(n, s.text(n.Args[0]), "without "+name))
				}
			}
			if name == "shell.Command" && len(n.Args) == 2 && !n.Ellipsis.IsValid() {
				if lit, ok := n.Args[0].(*ast.BasicLit); ok && strings.Count(lit.Value, "{}") == 1 {
					before, after, _ := strings.Cut(lit.Value, "{}")
					all = append(all, s.replace(n, before+`"+`+s.text(n.Args[1])+`+"`+after, "without "+name))
				}
			}
		case *ast.IfStmt:
			if strings.HasPrefix(s.file, "internal/shell/") {
				all = append(all, s.replace(n.Cond, "!("+s.text(n.Cond)+")", "not "+firstLine(s.text(n.Cond))))
			}
		}
		return true
	})
	return all
}
