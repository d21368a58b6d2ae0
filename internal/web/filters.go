package web

// filterRow is the search and the filters of a list, in one row. The partial "filters" shows it.
type filterRow struct {
	Action string // URL of the list
	Fields []filterField
	Hidden map[string]string // what the list keeps besides
	Clear  string            // URL of the list without filters; empty if none is set
}

// filterField is one field of a filter row.
type filterField struct {
	Kind    string // search, text, select or check
	Name    string
	Label   string
	Value   string
	Short   bool // it holds a few characters
	Choices []choice
	List    []string // suggestions for a text
	Checked bool
}

// First is the field that a phone always shows.
func (f filterRow) First() filterField { return f.Fields[0] }

// Rest are the fields that a phone shows on request.
func (f filterRow) Rest() []filterField { return f.Fields[1:] }

// Many reports whether a phone hides some of them.
func (f filterRow) Many() bool { return len(f.Fields) > 2 }

// Set is the number of filters that are set and that a phone hides.
func (f filterRow) Set() int {
	n := 0
	for _, field := range f.Rest() {
		if field.Value != "" || field.Checked {
			n++
		}
	}
	return n
}

// selected makes a select of a filter row.
func selected(name, label string, choices []choice) filterField {
	field := filterField{Kind: "select", Name: name, Label: label, Choices: choices}
	for _, c := range choices {
		if c.Chosen {
			field.Value = c.Value
		}
	}
	return field
}

// withEnvironment adds the choice of an environment if there are several.
func (f filterRow) withEnvironment(choices []choice) filterRow {
	if len(choices) > 2 {
		f.Fields = append(f.Fields, selected("environment", "Environment", choices))
	}
	return f
}

// clearing sets where the filters are cleared, if one is set.
func (f filterRow) clearing(filtered bool) filterRow {
	if filtered {
		f.Clear = f.Action
	}
	return f
}
