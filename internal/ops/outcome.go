package ops

// Outcome is what a session says at its end, in the structured form.
type Outcome struct {
	SchemaVersion int           `json:"schema_version" report:"required,version"`
	Kind          OutcomeKind   `json:"outcome" report:"required,one=healthy|resolved|escalate|needs_human"`
	Summary       string        `json:"summary" report:"required,text,says"`
	Confidence    *float64      `json:"confidence,omitempty" report:"min=0,max=1"` // how sure the session is of its decision
	CheckResults  []CheckResult `json:"check_results" report:"required,filled"`
	Handoff       *Handoff      `json:"handoff,omitempty" report:"optional"` // present if and only if the kind is escalate
	Actions       []Action      `json:"actions" report:"required"`
	Events        []Remark      `json:"events" report:"required"`
	Memories      []Lesson      `json:"memories" report:"required"`
}

// Action is something an agent says it did.
type Action struct {
	Service string `json:"service" report:"required,text,name"`
	Action  string `json:"action" report:"required,text,says"`
	Success bool   `json:"success" report:"required"`
	Detail  string `json:"detail" report:"required,says,loose"`
}

// Remark is something an agent wants the operator to see.
type Remark struct {
	Level   Level  `json:"level" report:"required,one=info|warning|critical"`
	Service string `json:"service" report:"required,name,loose"`
	Message string `json:"message" report:"required,text,says"`
}

// Lesson is something an agent wants remembered.
type Lesson struct {
	Category    string `json:"category" report:"required,text,says"`
	Service     string `json:"service" report:"required,name,loose"`
	Observation string `json:"observation" report:"required,text,says"`
}
