package web

// railLink is one entry of the navigation.
type railLink struct {
	Name, Path, Icon, Word string
	Current                bool
	Count                  int
}

// link makes an entry of the navigation; the counts are added up.
func link(current, name, path, icon, word string, counts ...int) railLink {
	l := railLink{Name: name, Path: path, Icon: icon, Word: word, Current: current == name}
	for _, n := range counts {
		l.Count += n
	}
	return l
}

// namedInput is an input with an id of its own.
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
