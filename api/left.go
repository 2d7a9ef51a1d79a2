package api

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxErrors is how many errors a LeftOut keeps. Who writes an object decides how many of its values are wrong; it mustn't decide how much
// memory that takes.
const MaxErrors = 8

// LeftOut is what is left out of an object because it is invalid. The zero value is nothing.
type LeftOut struct {
	// Errors are the first errors, at most MaxErrors: each says which value is wrong, and what would be right.
	Errors field.ErrorList
	// Count is the number of values that are left out.
	Count int
}

// Left returns what these errors are about.
func Left(errs ...*field.Error) LeftOut {
	return LeftOut{Errors: errs[:min(len(errs), MaxErrors)], Count: len(errs)}
}

// Add counts a value, and asks for its error if that is kept.
func (l *LeftOut) Add(err func() *field.Error) {
	l.Count++
	if len(l.Errors) < MaxErrors {
		l.Errors = append(l.Errors, err())
	}
}

// Append adds what another LeftOut has.
func (l *LeftOut) Append(o LeftOut) {
	l.Count += o.Count
	l.Errors = append(l.Errors, o.Errors[:min(len(o.Errors), MaxErrors-len(l.Errors))]...)
}

// First returns the same with the first error only, and without the memory of the others.
func (l LeftOut) First() LeftOut {
	if len(l.Errors) > 1 {
		l.Errors = field.ErrorList{l.Errors[0]}
	}
	return l
}

// List returns the errors, and as the last of them the number of those that aren't kept.
func (l LeftOut) List() field.ErrorList {
	if l.Count == len(l.Errors) {
		return l.Errors
	}
	return append(l.Errors[:len(l.Errors):len(l.Errors)], field.Forbidden(field.NewPath("spec"), fmt.Sprintf("%d more values are invalid", l.Count-len(l.Errors))))
}

// String returns the errors in one line, with the number of those that aren't kept; empty if nothing is left out.
func (l LeftOut) String() string {
	if l.Count == 0 {
		return ""
	}
	text := l.Errors.ToAggregate().Error()
	if more := l.Count - len(l.Errors); more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}
