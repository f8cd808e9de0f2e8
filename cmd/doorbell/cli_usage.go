package main

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// habitual takes what people type at other programs for what it is here.
func habitual(args []string) []string {
	switch {
	case slices.Equal(args, []string{"--version"}):
		return []string{"version"}
	case len(args) > 0 && args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}

// misuse is the usage error of the parser, with the command that says how it is meant.
func misuse(err error) error {
	var parse *kong.ParseError
	if !errors.As(err, &parse) || parse.Context.Selected() == nil {
		return usageError(err.Error(), "doorbell --help lists the commands, doorbell COMMAND --help their flags")
	}
	command, text := parse.Context.Selected().FullPath(), err.Error()
	if argument, missing := strings.CutPrefix(text, `expected "<`); missing {
		name, _, _ := strings.Cut(argument, ">")
		text = strings.TrimPrefix(command, "doorbell ") + ": " + strings.ToUpper(name) + " is missing"
	}
	return usageError(text, command+" --help shows how")
}

// emptyValue refuses a value that was given and says nothing, as of a variable that is not set: it would count as not given.
func emptyValue(command *kong.Context) error {
	for _, given := range command.Path {
		switch {
		case given.Flag != nil && isEmpty(given.Flag.Value):
			return errors.New("--" + given.Flag.Name + ": is empty; leave it out, or write a value")
		case given.Positional != nil && isEmpty(given.Positional):
			return errors.New(strings.ToUpper(given.Positional.Name) + ": is empty")
		}
	}
	return nil
}

func isEmpty(v *kong.Value) bool {
	return v.Target.IsValid() && v.Target.Kind() == reflect.String && v.Target.Len() == 0
}
