variable "endpoint" {
  type = string
}

variable "api_token" {
  type = string
}

variable "ca_certificate" {
  type = string
}

variable "ssh_private_key" {
  type = string
}

variable "ssh_key" {
  type = string
}

variable "plain" {
  type = number
}

variable "clones" {
  type = number
}

variable "spread" { # every other VM is on the second node
  type = bool
}

variable "generation" {
  type = number
}
