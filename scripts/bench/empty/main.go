// Empty does nothing: its run time is what starting any Go program costs here.
package main

func main() {}
