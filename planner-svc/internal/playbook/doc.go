// Package playbook is the model `playbook`: steps that a person wrote, in YAML. It is strict: what it does not know, what
// refers to something that is not there, and what did not come out as expected is an error that names the step or the
// line. It plans the next step, and those behind it that are certain; it runs nothing.
package playbook
