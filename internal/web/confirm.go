package web

// question is a button that asks before it acts: a dialog with a form that is posted. The partial "confirm" shows both.
type question struct {
	ID     string // of the dialog; unique on its page
	Button string // the word on the button that opens it
	Icon   string // on that button; empty for none
	Style  string // class of that button: "", primary, plain or danger
	Title  string // what is asked
	Text   string // what follows from a yes; empty for nothing
	Action string // where the form is posted
	Yes    string
	No     string
	Danger bool // yes destroys something
	Hidden map[string]string
	Fields []input
}

// input is a field of a form that is labelled and, where it must be filled in, says so.
type input struct {
	Name     string
	Label    string
	Kind     string // text (default), area, number or select
	Value    string
	Hint     string // what it is for, beneath it
	Required bool
	Max      int // of its length; 0 for no limit
	Choices  []choice
}
