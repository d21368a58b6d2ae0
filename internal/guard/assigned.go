package guard

import (
	"mvdan.cc/sh/v3/syntax"
)

// assigned are the variables a node sets.
func assigned(n syntax.Node) []assignment {
	var out []assignment
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				out = append(out, assignment{n.Name.Value, numericAssign(n)})
			}
		case *syntax.WordIter:
			out = append(out, assignment{name: n.Name.Value})
		case *syntax.CallExpr:
			out = append(out, assignedBy(n)...)
		case *syntax.ParamExp:
			if n.Param != nil && n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				out = append(out, assignment{name: n.Param.Value})
			}
		case *syntax.BinaryArithm:
			if w, ok := n.X.(*syntax.Word); ok && isAssign(n.Op) {
				out = append(out, assignment{w.Lit(), true})
			}
		case *syntax.UnaryArithm:
			if w, ok := n.X.(*syntax.Word); ok && (n.Op == syntax.Inc || n.Op == syntax.Dec) {
				out = append(out, assignment{w.Lit(), true})
			}
		}
		return true
	})
	return out
}

// numericAssign reports i=$((i+1)) and i=0.
func numericAssign(a *syntax.Assign) bool {
	if a.Append || a.Index != nil || a.Value == nil || len(a.Value.Parts) != 1 {
		return false
	}
	switch p := a.Value.Parts[0].(type) {
	case *syntax.ArithmExp:
		return true
	case *syntax.Lit:
		return isDigits(p.Value)
	}
	return false
}

// assignedBy are the plain words after builtins that set variables.
func assignedBy(c *syntax.CallExpr) []assignment {
	args := c.Args
	for len(args) > 0 && (args[0].Lit() == "command" || args[0].Lit() == "builtin") {
		args = args[1:]
	}
	if len(args) == 0 {
		return nil
	}
	switch args[0].Lit() {
	case "read", "mapfile", "readarray", "printf", "getopts", "export", "declare", "local", "typeset", "readonly", "unset", "wait":
	default:
		return nil
	}
	var out []assignment
	for _, w := range args[1:] {
		if name := w.Lit(); syntax.ValidName(name) {
			out = append(out, assignment{name: name})
		}
	}
	return out
}

// sets reports whether the list has the variable.
func sets(list []assignment, name string) bool {
	for _, a := range list {
		if a.name == name {
			return true
		}
	}
	return false
}
