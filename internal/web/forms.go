package web

// question is a button that opens a confirmation dialog with a form. The partial "confirm" shows both.
type question struct {
	ID     string // of the dialog; unique on its page
	Button string // the word on the button that opens it
	Icon   string // on that button; empty for none
	Style  string // class of that button: "", primary, plain or danger
	Title  string // what is asked
	Text   string // what confirming does; may be empty
	Action string // URL that the form is posted to
	Yes    string
	No     string
	Danger bool // confirming destroys something
	Hidden map[string]string
	Fields []input
}

// input is a labelled field of a form.
type input struct {
	Name     string
	Label    string
	Kind     string // text (default), area, number or select
	Value    string
	Hint     string // help text below the field
	Required bool
	Max      int // maximum length; 0 for no limit
	Choices  []choice
}

// namedInput is an input with its own id.
type namedInput struct {
	input
	ID string
}

// field gives an input an id that is unique as long as the prefix is.
func field(prefix string, in input) namedInput {
	return namedInput{input: in, ID: prefix + "-" + in.Name}
}

// selecting is a filter with its name, its label and its choices.
func selecting(name, label string, choices []choice) input {
	return input{Name: name, Label: label, Choices: choices}
}

// choice is one entry of a filter.
type choice struct {
	Value, Word string
	Chosen      bool
}

// choose marks the current entry of a filter.
func choose(value string, choices ...choice) []choice {
	for i := range choices {
		choices[i].Chosen = choices[i].Value == value
	}
	return choices
}

// chosen returns the choices of a select; the first one means all.
func chosen(value, all string, choices ...choice) []choice {
	out := []choice{{Word: all, Chosen: value == ""}}
	for _, c := range choices {
		c.Chosen = c.Value == value
		out = append(out, c)
	}
	return out
}

// option is one of several views of a page, as a link.
type option struct {
	Word    string
	Path    string
	Count   int
	Current bool
}
