"""What makes models: n-grams, recurrent networks, students, classifiers, adaptation."""
